"""Homes of clients, as the leader gives them: to who comes to a channel, by a placement; to who is there, by a policy.

Nobody is given one before every agent that is alive has said who is at home at its broker: a new leader knows nothing.
Subscribers of a broker that is being drained leave it whatever is set.
"""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from nearcast.control.rehoming import HomesSettings, Rehoming
from nearcast.control.timing import Timing
from nearcast.control.verify import objections
from nearcast.coordinator.agents import Agents
from nearcast.coordinator.brokers import Brokers
from nearcast.coordinator.inhabitants import Inhabitant
from nearcast.coordinator.residents import Residents
from nearcast.domain.broker import Book, addresses_in
from nearcast.domain.errors import SnapshotError
from nearcast.domain.homes import Floats, Homes, cov_of
from nearcast.domain.plan import HomeStep, Plan
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.placements import LEAST_LOADED, NEAREST, Arrival, placement_named
from nearcast.policies.registry import policy_named
from nearcast.policies.settings import Balancing, Settings
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.channels import AtHome, Rehome
from nearcast.wire.homes import HomeLoad, HomesOrder, HomesTold

_LOOK_S = 1.0
_STAY = Balancing(alpha=math.inf, gamma=math.inf)  # who need not leave does not

_log = logging.getLogger(__name__)


class Leader(Protocol):
    """What is needed of the coordinator."""

    agents: Agents
    brokers: Brokers
    timing: Timing

    @property
    def leading(self) -> bool: ...

    @property
    def book(self) -> Book: ...

    def say(self, broker: str, message: Rehome) -> None: ...

    def snapshot(self, planned_s: float | None) -> Snapshot: ...


class SubscriberHomes:
    """`chance` gives numbers between 0 and 1."""

    def __init__(
        self,
        leader: Leader,
        homes: HomesSettings,
        settings: Settings,
        *,
        clock: Clock,
        crew: Crew,
        chance: Callable[[], float],
    ) -> None:
        self._leader = leader
        self._homes = homes
        self._settings = settings
        self._clock = clock
        self._crew = crew
        self._chance = chance
        self._arrivals = 0
        self.forget()

    def start(self) -> None:
        self._crew.start(self._look_often(), "homes of subscribers")

    def forget(self) -> None:
        """Another leads, or we do from now on."""
        self.residents = Residents(self._leader.timing.forget_s)
        self._rehoming = Rehoming(self._homes.at_once, self._homes.rest_s)
        self._newcomers: dict[str, float] = {}
        self._since_s = self._clock.now()
        self._planned_s = self._since_s
        self._last: Plan | None = None

    # What agents say

    def heard(self, message: AtHome) -> None:
        now = self._clock.now()
        for client in self.residents.heard(message, now):
            if self._homes.placement:
                self._newcomers[client] = now
        self._place(now)
        self._go_on(now)

    def lost(self, broker: str) -> None:
        self.residents.forget(broker, self._clock.now())

    def unheard(self) -> list[str]:
        """Brokers whose agents may be alive, and have not said who is at home there."""
        heard, agents = self.residents.reported(), self._leader.agents
        young = self._clock.now() < self._since_s + self._leader.timing.absent_s
        brokers = self._leader.brokers
        known = (*brokers.present, *brokers.draining) if young else agents.known()
        return [each for each in known if each not in heard and not agents.away(each) and not self._gone(each)]

    def _gone(self, broker: str) -> bool:
        return self._leader.brokers.gone(broker)

    # What a policy sees, and what becomes of its plan

    def seen(self, brokers: Sequence[str]) -> Homes | None:
        self.residents.expire(self._clock.now())
        return self.residents.homes(brokers)

    def inhabitants(self) -> dict[str, Inhabitant]:
        """Who uses homed topics, once everybody is known."""
        return {} if self.unheard() else self.residents.inhabitants()

    def carry_out(self, plan: Plan) -> None:
        """Its homes. Who is on its way elsewhere, or was moved too lately, is left out."""
        now = self._clock.now()
        taken = self._rehoming.want(((step.subscriber, step.broker) for step in plan.homes), now)
        if taken:
            self._last = plan
            _log.info("%s: %d of %d subscribers move; %s", plan.policy, taken, len(plan.homes), "; ".join(plan.reasons))
            self._go_on(now)

    def left(self, steps: Iterable[HomeStep]) -> int:
        """How many of them are waiting or on their way."""
        return sum(self._rehoming.is_wanted(step.subscriber) for step in steps)

    def stop(self) -> None:
        """No more begin to move."""
        self._rehoming.stop()

    def answer(self, order: HomesOrder) -> HomesTold:
        try:
            seen = self._leader.snapshot(None)
        except SnapshotError as error:
            return HomesTold(order.number, refused=str(error))
        homes, count, last = seen.homes or Homes.of(seen.brokers, {}, {}), len(seen.brokers), self._last
        counts, loads = homes.counts(count), homes.loads(count)
        people = np.bincount(homes.home, minlength=count).tolist()
        keys = (counts > 0).sum(axis=1).tolist()
        rows = zip(seen.brokers, people, keys, loads.tolist(), seen.usable.tolist(), strict=True)
        return HomesTold(
            order.number,
            tuple(HomeLoad(*row) for row in rows),
            len(homes.subscribers),
            len(homes.keys),
            cov_of(loads[seen.usable]),
            self._rehoming.moving,
            self._rehoming.waiting,
            tuple(self.unheard()),
            "" if last is None else last.policy,
            () if last is None else last.reasons,
        )

    # Newcomers

    def _place(self, now: float) -> None:
        """Who has come, once everybody is known; by `nearest`, who has said where it is, or has had the time to."""
        if not self._newcomers or self.unheard():
            return
        patience_s = self._leader.timing.absent_s if self._homes.placement == NEAREST else 0.0
        ready = [
            client
            for client, came_s in self._newcomers.items()
            if now >= came_s + patience_s or self.residents.near(client)
        ]
        usable = self._usable()
        if not ready or not usable:
            return
        load = self._load(usable)
        moves = []
        for client in ready:
            del self._newcomers[client]
            if self.residents.at(client):
                moves.append((client, usable[self._placed(client, usable, load)]))
                self._arrivals += 1
        self._rehoming.want(moves, now)

    def _placed(self, client: str, usable: list[str], load: Floats) -> int:
        near = dict(self.residents.near(client))
        distance = np.array([near.get(broker, math.nan) for broker in usable])
        arrival = Arrival(load, distance, self._arrivals, self._chance())
        return placement_named(self._homes.placement)(arrival)

    def _usable(self) -> list[str]:
        """Brokers that may be given somebody, by name."""
        draining, agents = self._leader.brokers.draining, self._leader.agents
        return [
            broker
            for broker in sorted(self.residents.reported())
            if broker not in draining and not agents.away(broker) and not self._gone(broker)
        ]

    def _load(self, usable: list[str]) -> Floats:
        """Of all who come together the same: what they are going to cost nobody knows."""
        homes = self.residents.homes(usable) if self._homes.placement == LEAST_LOADED else None
        return np.zeros(len(usable)) if homes is None else homes.loads(len(usable))

    # Time

    async def _look_often(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_S)
            if self._leader.leading:
                self.look()

    def look(self) -> None:
        """What there is to do now."""
        now = self._clock.now()
        self.residents.expire(now)
        self._place(now)
        self._balance(now)
        self._go_on(now)

    def _balance(self, now: float) -> None:
        due = self._homes.every_s and now >= self._planned_s + self._homes.every_s
        drains = any(map(self.residents.at_home, self._leader.brokers.draining))
        if not (due or drains) or self._rehoming.waiting or self.unheard():
            return
        settings = self._settings if due else replace(self._settings, balancing=_STAY)
        if due:
            self._planned_s = now
            self._rehoming.want([(client, self.residents.home_of(client)) for client in self.residents.split()], now)
        try:
            seen = self._leader.snapshot(None)
            plan = policy_named(self._homes.policy)(seen, settings, now)
        except SnapshotError as error:
            _log.warning("homes stay as they are: %s", error)
            return
        if against := objections(replace(plan, steps=()), seen):
            _log.warning("homes stay as they are: %s", "; ".join(against[:5]))
            return
        self.carry_out(plan)

    def _go_on(self, now: float) -> None:
        book = self._leader.book
        for broker, moves in sorted(self._rehoming.tick(now, self.residents.where).items()):
            homes = dict.fromkeys(home for _, home in moves)
            self._leader.say(broker, Rehome(tuple(moves), addresses_in(book, tuple(homes))))
