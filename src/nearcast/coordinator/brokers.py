"""Brokers that come and go: every change is an order that is written first, and then carried out by whoever leads.

joining --its agent is heard--> present --drain--> draining --remove, when it is empty--> leaving --> removed
                                   ^--cancel----------'

One that left the ring to be drained goes back into it when that is cancelled.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nearcast.coordinator.leader import Leader
from nearcast.domain.broker import BrokerRecord, Presence, must_be_name
from nearcast.domain.errors import BrokerRefused, ConfigError, FleetError, LeaseLost, MoveRefused
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, brokers_of
from nearcast.fleet.provisioner import Provisioner
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.transport.endpoint import Endpoint
from nearcast.wire.brokers import MOST_TOPICS, BrokerOrder, BrokerStanding

_LONGEST_PAUSE_S = 30.0
_AT_ONCE = 64  # topics that are on their way from one broker at a time

Where = Callable[[Route, Sequence[str], Mapping[str, int]], tuple[str, ...]]
"""(a topic's route, brokers that may have it, routes by broker) -> the brokers it goes to; none: it cannot go now."""


def least_routes(route: Route, candidates: Sequence[str], routes: Mapping[str, int]) -> tuple[str, ...]:
    """Brokers that may not have it any more are replaced by those with the fewest routes, by name where equal."""
    stay = [broker for broker in route.brokers if broker in candidates]
    free = sorted((routes.get(broker, 0), broker) for broker in candidates if broker not in stay)
    return tuple(sorted([*stay, *(broker for _, broker in free[: len(route.brokers) - len(stay)])]))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The brokers that a coordinator's file names, who provides further ones, and how many there must be at least."""

    brokers: tuple[BrokerRecord, ...]
    provisioner: Provisioner | None = None
    minimum: int = 1

    @classmethod
    def of(cls, ring: Ring) -> "Fleet":
        return cls(tuple(BrokerRecord(broker, Presence.PRESENT) for broker in ring.brokers))


class Brokers:
    """`where` may be replaced: it says where the topics of a broker that drains go."""

    def __init__(self, leader: Leader, fleet: Fleet, clock: Clock, crew: Crew) -> None:
        self.book: dict[str, str] = {}  # what is not in everybody's file
        self.where: Where = least_routes
        self._leader = leader
        self._fleet = fleet
        self._files = {each.name: each for each in fleet.brokers}
        self._clock = clock
        self._crew = crew
        self._records: dict[str, BrokerRecord] = {}  # what the store has; else a broker of the file is present
        self._trouble: dict[str, str] = {}
        self._tended: dict[str, None] = {}
        self._reign = 0
        self._writing = asyncio.Lock()
        self._ringing = asyncio.Lock()  # what the ring is to be depends on what it is by then
        self._steps: dict[Presence, Callable[[BrokerRecord], Awaitable[None]]] = {
            Presence.JOINING: self._join,
            Presence.DRAINING: self._drain,
            Presence.LEAVING: self._leave,
        }

    # What is known

    def records(self) -> list[BrokerRecord]:
        return [record for _, record in sorted({**self._files, **self._records}.items())]

    def named(self, *states: Presence) -> tuple[str, ...]:
        return tuple(record.name for record in self.records() if record.state in states)

    @property
    def present(self) -> tuple[str, ...]:
        return self.named(Presence.PRESENT)

    @property
    def draining(self) -> tuple[str, ...]:
        """Those to which nothing should be planned."""
        return self.named(Presence.DRAINING, Presence.LEAVING)

    @property
    def joining_count(self) -> int:
        return len(self.named(Presence.JOINING))

    @property
    def sites(self) -> dict[str, str]:
        return {record.name: record.site for record in self.records()}

    def gone(self, broker: str) -> bool:
        record = self._records.get(broker)
        return record is not None and record.state in {Presence.LEAVING, Presence.REMOVED}

    def must_take(self, broker: str) -> None:
        """Raises MoveRefused for a broker that nothing moves to."""
        record = self._records.get(broker)
        if record is not None and record.state is not Presence.PRESENT:
            raise MoveRefused(f"broker {broker!r} is {record.state.value}: nothing moves to it")

    def must_not_rest(self, topic: str) -> None:
        """Raises MoveRefused for a topic that has left a broker which drains, and is still used there: one that goes on
        moving would never be quiet there.
        """
        if broker := self._rests_for(topic):
            raise MoveRefused(
                f"topic {topic!r} has just left broker {broker!r}, which is {self._records[broker].state.value}:"
                " it moves again when nobody uses it there"
            )

    def _rests_for(self, topic: str) -> str | None:
        move = self._leader.moves.get(topic)
        if move is None:
            return None
        record = move.record
        older = [broker for broker in brokers_of(record.routes) if broker not in record.newest.brokers]
        return next((broker for broker in older if broker in self.draining), None)

    def left(self, broker: str) -> list[str]:
        """Topics that somebody may still be using there."""
        return sorted(
            topic
            for topic, move in self._leader.moves.items()
            if broker in brokers_of(move.record.routes) or (broker in move.participants and not move.finished)
        )

    def standings(self) -> tuple[BrokerStanding, ...]:
        ring = self._leader.ring.brokers
        return tuple(self._standing(each, ring) for each in self.records() if each.state is not Presence.REMOVED)

    def _standing(self, record: BrokerRecord, ring: tuple[str, ...]) -> BrokerStanding:
        name = record.name
        left = self.left(name) if record.state is Presence.DRAINING else []
        url = record.url or (self._files[name].url if name in self._files else "")
        some, trouble = tuple(left[:MOST_TOPICS]), self._trouble.get(name, "")
        return BrokerStanding(
            name, record.state, url, record.site, record.rented, name in ring, len(left), some, trouble
        )

    # Leadership

    def taken_over(self, records: Sequence[BrokerRecord]) -> None:
        """What an earlier leader began goes on."""
        self.forget()
        for record in records:
            self._take(record)
            if record.rented and record.state in {Presence.PRESENT, Presence.DRAINING}:
                self._crew.start(self._find_again(record.name, self._reign), f"address of {record.name}")

    def forget(self) -> None:
        """Another leads."""
        self._reign += 1
        self._records.clear()
        self._trouble.clear()
        self._tended.clear()
        self.book.clear()

    # Orders

    async def carry_out(self, order: BrokerOrder) -> None:
        """Raises BrokerRefused or LeaseLost; else it is written, and goes on by itself."""
        async with self._writing:
            record = self.changed(order)
            if record is not None:
                await self._write(replace(record, reason=order.reason))

    def changed(self, order: BrokerOrder) -> BrokerRecord | None:
        """What the order makes of the broker; None where it is so already. Raises BrokerRefused."""
        match order.do:
            case "add":
                return self._added(order.broker, order.url, order.site, order.out_bytes_per_s)
            case "drain":
                return self._drained(order.broker)
            case "cancel":
                return replace(self._must_be(order.broker, Presence.DRAINING), state=Presence.PRESENT)
            case "remove":
                return self._removed(order.broker)

    async def rent(self) -> str:
        """One more server, under a name that no broker ever had. Raises as `add` does."""
        numbers = [int(name[1:]) for name in (*self._files, *self._records) if name[:1] == "r" and name[1:].isdigit()]
        name = f"r{max(numbers, default=0) + 1}"
        await self.add(name)
        return name

    async def add(self, name: str, url: str = "", site: str = "", out_bytes_per_s: float | None = None) -> None:
        """Without `url`, a server is rented."""
        async with self._writing:
            await self._write(self._added(name, url, site, out_bytes_per_s))

    async def drain(self, name: str) -> None:
        async with self._writing:
            record = self._drained(name)
            if record is not None:
                await self._write(record)

    async def cancel(self, name: str) -> None:
        """What has moved away stays there."""
        async with self._writing:
            await self._write(replace(self._must_be(name, Presence.DRAINING), state=Presence.PRESENT))

    async def remove(self, name: str) -> None:
        async with self._writing:
            await self._write(self._removed(name))

    def _added(self, name: str, url: str, site: str, out_bytes_per_s: float | None) -> BrokerRecord:
        must_be_name(name)
        record = self._find(name)
        if record is not None and record.state is not Presence.REMOVED:
            raise BrokerRefused(f"broker {name!r} is there already ({record.state.value})")
        if not url and self._fleet.provisioner is None:
            raise BrokerRefused(
                f"broker {name!r} has no address, and nobody here rents servers: give --url, or say in the"
                " coordinators' configuration who does ([provisioner])"
            )
        return BrokerRecord(name, Presence.JOINING, _bare(url), site, out_bytes_per_s, rented=not url)

    def _drained(self, name: str) -> BrokerRecord | None:
        record = self._must_be(name, Presence.PRESENT, Presence.DRAINING)
        if record.state is Presence.DRAINING:
            return None
        rest = [each for each in self.present if each != name]
        if len(rest) < self._fleet.minimum:
            raise BrokerRefused(
                f"without broker {name!r} there are {len(rest)} left ({', '.join(rest) or 'none'});"
                f" the configured minimum is {self._fleet.minimum}"
            )
        in_ring = record.in_ring or name in self._leader.ring.brokers
        return replace(record, state=Presence.DRAINING, in_ring=in_ring)

    def _removed(self, name: str) -> BrokerRecord:
        record = self._must_be(name, Presence.JOINING, Presence.DRAINING, Presence.LEAVING)
        if record.state is Presence.DRAINING:
            self._must_be_empty(name)
        return replace(record, state=Presence.LEAVING)

    def _must_be_empty(self, name: str) -> None:
        left = self.left(name)
        if left:
            some = ", ".join(left[:MOST_TOPICS]) + (", ..." if len(left) > MOST_TOPICS else "")
            raise BrokerRefused(f"broker {name!r} is not empty: {len(left)} topics are still there ({some})")
        people = self._leader.at_home(name)
        if people:
            raise BrokerRefused(f"broker {name!r} is not empty: {people} subscribers of channels are still there")
        kept = self._kept(name)
        if kept:
            raise BrokerRefused(
                f"broker {name!r} keeps a part of the log of {len(kept)} persistent topics"
                f" ({', '.join(kept[:MOST_TOPICS])}): it can go when retention has removed that"
            )
        if name in self._leader.ring.brokers:
            raise BrokerRefused(f"broker {name!r} is still in the ring: topics that no route names belong to it")

    def _kept(self, name: str) -> list[str]:
        """Persistent topics of which there are segments at this broker."""
        logs = ((topic, move.record.log) for topic, move in sorted(self._leader.moves.items()))
        return [
            topic
            for topic, log in logs
            if log is not None and any(each.broker == name and not each.empty for each in log.segments)
        ]

    def _find(self, name: str) -> BrokerRecord | None:
        return self._records.get(name) or self._files.get(name)

    def _must_be(self, name: str, *states: Presence) -> BrokerRecord:
        record = self._find(name)
        if record is None or record.state is Presence.REMOVED:
            known = ", ".join(each.name for each in self.records() if each.state is not Presence.REMOVED)
            raise BrokerRefused(f"there is no broker {name!r}; brokers are {known}")
        if record.state not in states:
            hint = "; drain it first" if record.state is Presence.PRESENT else ""
            raise BrokerRefused(f"broker {name!r} is {record.state.value}{hint}")
        # Where it is in a file, everybody has its address from there.
        return record if name in self._records else replace(record, url="")

    # Carrying out

    async def _write(self, record: BrokerRecord) -> None:
        records = self._leader.records
        await self._leader.write(records, partial(records.save_broker, record))
        self._take(record)

    def _take(self, record: BrokerRecord) -> None:
        name = record.name
        self._records[name] = record
        self._trouble.pop(name, None)
        if record.url and record.state is not Presence.REMOVED:
            before, self.book[name] = self.book.get(name), record.url
            if before not in {None, record.url}:
                self._tell_address(name)
        if record.state is Presence.REMOVED:
            self.book.pop(name, None)
            self._leader.agents.drop(name)
            for move in self._leader.moves.values():
                move.forget(name)
        elif self._step_of(record) is not None and name not in self._tended:
            self._tended[name] = None
            self._crew.start(self._tend(name, self._reign), f"broker {name}")

    def _step_of(self, record: BrokerRecord) -> Callable[[BrokerRecord], Awaitable[None]] | None:
        """What is still to be done about it; None: it is where it should be."""
        if record.state is Presence.PRESENT and record.in_ring:
            return self._rejoin
        return self._steps.get(record.state)

    def _tell_address(self, name: str) -> None:
        """It is elsewhere now: every agent of its topics is prepared anew, and tells clients that ask."""
        for topic, move in self._leader.moves.items():
            if name in brokers_of(move.record.routes):
                for broker in move.participants:
                    self._leader.do(topic, move.agent_back(broker))

    async def _tend(self, name: str, reign: int) -> None:
        """Step by step, until it is where it should be. A step that fails is tried again, later and later."""
        pause_s = retry_s = self._leader.timing.retry_s
        while self._reign == reign:
            record = self._records[name]
            step = self._step_of(record)
            if step is None:
                del self._tended[name]
                return
            try:
                await step(record)
                pause_s = retry_s
            except LeaseLost:
                return
            except (FleetError, MoveRefused) as error:
                if self._reign == reign:
                    self._trouble[name] = str(error)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            await self._clock.sleep(pause_s)

    async def _find_again(self, name: str, reign: int) -> None:
        """A rented server may have been started anew, at another address, while nobody led."""
        pause_s = self._leader.timing.retry_s
        while self._reign == reign and (provisioner := self._fleet.provisioner) is not None:
            record = self._records[name]
            if record.state not in {Presence.PRESENT, Presence.DRAINING}:
                return
            try:
                rented = await provisioner.rent(name)
            except FleetError:
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            if rented.url != record.url:
                with contextlib.suppress(LeaseLost):
                    await self._advance(record, replace(record, url=rented.url))
            return

    async def _advance(self, was: BrokerRecord, now: BrokerRecord) -> None:
        """Unless an order has changed it meanwhile."""
        async with self._writing:
            if self._records.get(was.name) == was:
                await self._write(now)

    async def _join(self, record: BrokerRecord) -> None:
        if not record.url:
            assert self._fleet.provisioner is not None
            rented = await self._fleet.provisioner.rent(record.name)
            found = replace(record, url=rented.url, site=rented.site, out_bytes_per_s=rented.out_bytes_per_s)
            await self._advance(record, found)
        elif record.name in self._leader.agents.present():
            await self._advance(record, replace(record, state=Presence.PRESENT))
        else:
            self._trouble[record.name] = "its agent has not been heard"

    async def _drain(self, record: BrokerRecord) -> None:
        leader, name = self._leader, record.name
        answering = leader.agents.present()
        candidates = [broker for broker in self.present if broker in answering]
        if not candidates:
            raise MoveRefused(f"no other broker can take what {name!r} has: none of {', '.join(self.present)} answers")
        async with self._ringing:
            if name in leader.ring.brokers and self._records.get(name) == record:
                rest = tuple(broker for broker in leader.ring.brokers if broker in self.present)
                await leader.change_ring(rest or tuple(candidates))
        if self._records.get(name) != record:
            return  # it is kept after all
        self._trouble.pop(name, None)
        routes = Counter(broker for move in leader.moves.values() for broker in move.record.newest.brokers)
        there = [topic for topic, move in sorted(leader.moves.items()) if name in move.record.newest.brokers]
        moving = sum(not leader.movable(topic) for topic in self.left(name))
        due = [topic for topic in there if leader.movable(topic) and self._rests_for(topic) is None]
        for topic in due[: max(0, _AT_ONCE - moving)]:
            route = leader.moves[topic].record.newest
            brokers = self.where(route, candidates, routes)
            if not brokers:
                raise MoveRefused(f"topic {topic!r} finds no other broker than {name!r}")
            leader.begin(topic, route.strategy, brokers)
            why = f"broker {name!r} is being drained" + (record.reason and f": {record.reason}")
            leader.drained(topic, brokers, route, why)
            routes.update(brokers)

    async def _rejoin(self, record: BrokerRecord) -> None:
        leader, name = self._leader, record.name
        leader.agents.must_answer(name, self._clock.now())
        async with self._ringing:
            if name not in leader.ring.brokers and self._records.get(name) == record:
                await leader.change_ring((*leader.ring.brokers, name))
        await self._advance(record, replace(record, in_ring=False))

    async def _leave(self, record: BrokerRecord) -> None:
        if record.rented and self._fleet.provisioner is not None:
            await self._fleet.provisioner.release(record.name)
        await self._advance(record, replace(record, state=Presence.REMOVED))


def _bare(url: str) -> str:
    """Without credentials: those are the affair of each process that connects."""
    try:
        endpoint = Endpoint.parse(url) if url else None
    except ConfigError as error:
        raise BrokerRefused(str(error)) from error
    if endpoint is not None and endpoint.password is not None:
        raise BrokerRefused(f"{endpoint.url} has a password: processes have theirs from [added] of their file")
    return endpoint.url if endpoint is not None else ""
