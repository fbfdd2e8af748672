"""The coordinator: leader by lease, the moves of all topics, the leases of all agents.

Any number may run; one leads. A leader writes before it acts, and acts only while its own lease holds; a new one
reads the records and rolls every unfinished move forward (rule 10).
"""

import contextlib
import logging
import math
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from functools import partial

from nearcast.brokers.link import Connect
from nearcast.brokers.log import LogSites
from nearcast.brokers.pool import Inbox, LinkPool
from nearcast.control.instructions import Instruction
from nearcast.control.loop import LoopSettings
from nearcast.control.move import SAME, Move, Same
from nearcast.control.rehoming import HomesSettings
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.timing import Timing
from nearcast.coordinator.agents import Agents
from nearcast.coordinator.brokers import Brokers, Fleet
from nearcast.coordinator.chart import Chart
from nearcast.coordinator.decisions import Decisions, Why
from nearcast.coordinator.homes import SubscriberHomes
from nearcast.coordinator.inhabitants import area_of, unsettled
from nearcast.coordinator.journal import Journal
from nearcast.coordinator.leader_time import LeaderTime
from nearcast.coordinator.logs import Logs
from nearcast.coordinator.moves import Moves
from nearcast.coordinator.orders import Orders
from nearcast.coordinator.places import BrokerPlaces
from nearcast.coordinator.processors import Processors, processing_of
from nearcast.coordinator.promises import Promises
from nearcast.coordinator.rebalancer import Rebalancer
from nearcast.coordinator.records import Records
from nearcast.coordinator.reports import Reports
from nearcast.coordinator.rings import RingChanges
from nearcast.domain.broker import Book, addresses_in
from nearcast.domain.decision import DRAINING
from nearcast.domain.errors import Conflict, LeaseLost, StoreDown, StoreError
from nearcast.domain.log import TopicLog
from nearcast.domain.placing import places_of
from nearcast.domain.processor import Processor
from nearcast.domain.record import TopicRecord
from nearcast.domain.ring import Ring
from nearcast.domain.route import Delegation, Route, Strategy, brokers_of
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.topic import validate_topic
from nearcast.store.store import Store
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.brokers import BrokerOrder
from nearcast.wire.channels import AtHome, Rehome
from nearcast.wire.control import (
    COORDINATOR_SUBJECT,
    Ack,
    Alive,
    Answered,
    DryRun,
    Frozen,
    LoadOrder,
    MoveOrder,
    Quiet,
    Renew,
    StatusOrder,
    ToAgent,
    agent_bus_subject,
    client_subject,
    seal,
    unseal,
)
from nearcast.wire.dialect import Dialect
from nearcast.wire.homes import HomesOrder
from nearcast.wire.loads import Load
from nearcast.wire.logs import KeepOrder
from nearcast.wire.places import Placed, PlacesOrder
from nearcast.wire.processors import ProcessOrder
from nearcast.wire.promises import PromiseOrder, SnapshotOrder, StandingOrder
from nearcast.wire.rebalancing import RebalanceOrder
from nearcast.wire.rejects import Rejects

_LEADER = "leader"
_log = logging.getLogger(__name__)

OnMove = Callable[[str, int, str], None]


class Coordinator:
    """`on_move(topic, epoch, phase)` is told of every phase that is written. Without `fleet`, it is the ring's brokers,
    and nobody rents further ones. `journal`: where decisions are kept, if not in `store`. `sites`: those that keep the
    logs of persistent topics; without them there are none. `homes`: how subscribers of channels get theirs; `chance`
    gives numbers between 0 and 1.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        store: Store,
        ring: Ring,
        *,
        bus: str,
        dialect: Dialect,
        clock: Clock,
        timing: Timing | None = None,
        rules: Rules = ALL_ON,
        on_move: OnMove | None = None,
        loop: LoopSettings | None = None,
        fleet: Fleet | None = None,
        journal: Store | None = None,
        sites: LogSites | None = None,
        homes: HomesSettings | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.rejects = Rejects()
        self.ring = ring
        self.term: int | None = None  # None while another leads
        self.reports = Reports()
        self.places = BrokerPlaces()
        self._chart = Chart(self.places)
        self._time = LeaderTime()
        self._store = store
        self._bus = bus
        self._dialect = dialect
        self._clock = clock
        self.timing = timing or Timing()
        self.rules = rules
        self._on_move = on_move
        self.records = Records(store, fenced=rules.terms)  # of this term: what is late of an earlier one has its own
        self.agents = Agents(self.timing)
        self._crew = Crew()
        self._pool = LinkPool(connect, clock, self._crew, inbox=self._inbox, on_state=lambda _broker, _up: None)
        self._alarm = Alarm(clock, self._tick)
        self._lead_until_s = -math.inf
        self.brokers = Brokers(self, fleet or Fleet.of(ring), clock, self._crew)
        self.rings = RingChanges(self, clock)
        self.promises = Promises(self)
        self.logs = Logs(self, sites, clock, self._crew)
        self.processors = Processors(self)
        self.decisions = Decisions(self, Journal(journal or store), clock, self._crew)
        self._moves = Moves(
            self, clock, self._crew, saved=self._saved, see_to=self.logs.see_to, changed=self._set_alarm
        )
        self._orders = Orders(self, self._answer, Journal(journal or store), clock, self._crew)
        settle_s, loop = self.timing.retry_s + self.timing.linger_s, loop or LoopSettings()
        homes = homes or HomesSettings()
        self.homes = SubscriberHomes(self, homes, loop.settings, clock=clock, crew=self._crew, chance=chance)
        self.rebalancer = Rebalancer(self, loop, clock, self._crew, settle_s)

    def start(self) -> None:
        self._pool.reach(self._bus)
        self._crew.start(self._lead(), f"leadership of {self.name}")
        self.rebalancer.start()
        self.homes.start()
        self.logs.start()

    async def close(self) -> None:
        """Steps down, so that another need not wait for the lease to run out."""
        self._alarm.cancel()
        await self._crew.close()
        await self.decisions.close()
        if self.leading:
            await self._resign()
        await self._pool.close()

    async def abandon(self) -> None:
        """Ends at once, without a goodbye: what a crash looks like from outside."""
        self._alarm.cancel()
        await self._crew.close()

    @property
    def connected(self) -> bool:
        return self._pool.up(self._bus)

    @property
    def moves(self) -> dict[str, Move]:
        return self._moves.machines

    @property
    def book(self) -> Book:
        return self.brokers.book

    @property
    def leading(self) -> bool:
        if self.term is None:
            return False
        return self._clock.now() < self._lead_until_s or not self.rules.terms

    # Orders

    def begin(
        self,
        topic: str,
        strategy: Strategy,
        brokers: tuple[str, ...],
        *,
        eager: bool = True,
        stay: bool = False,
        log: TopicLog | None = None,
        processor: Processor | Same | None = SAME,
        delegation: Delegation | Same | None = SAME,
    ) -> None:
        """Starts a move and returns at once. Raises MoveRefused, or LeaseLost when this coordinator does not lead.

        `stay`: the topic is there already, which is not refused where a broker takes nothing new. `log`: it becomes
        persistent with this move; `processor`: it is processed like that from then on, or not any more; `delegation`:
        who publishes elsewhere than at home.
        """
        self._must_take(topic, brokers, stay=stay)
        self._moves.begin(topic, strategy, brokers, eager=eager, log=log, processor=processor, delegation=delegation)

    def foreseen(self, topic: str, strategy: Strategy, brokers: tuple[str, ...]) -> tuple[Route, Route]:
        """Where the topic is, and where `begin` would bring it; nothing begins. Raises as `begin` does."""
        self._must_take(topic, brokers, stay=False)
        return self._moves.foreseen(topic, strategy, brokers)

    def _must_take(self, topic: str, brokers: tuple[str, ...], *, stay: bool) -> None:
        self.must_lead()
        validate_topic(topic)
        if not stay:
            self.brokers.must_not_rest(topic)
        for broker in brokers:
            if not stay:
                self.brokers.must_take(broker)
            self.agents.must_answer(broker, self._clock.now())
            self.logs.must_take(topic, broker)

    async def move(
        self,
        topic: str,
        strategy: Strategy,
        brokers: tuple[str, ...],
        *,
        eager: bool = True,
        stay: bool = False,
        log: TopicLog | None = None,
        processor: Processor | Same | None = SAME,
        delegation: Delegation | Same | None = SAME,
    ) -> int:
        """Moves a topic and returns its epoch when every agent has been told; clients follow by themselves.

        Raises as `begin` does; also MoveRefused when a new broker's agent was lost before anybody was told, and
        LeaseLost when this coordinator stopped leading meanwhile.
        """
        self.begin(
            topic, strategy, brokers, eager=eager, stay=stay, log=log, processor=processor, delegation=delegation
        )
        return await self._moves.told(topic)

    def snapshot(self, planned_s: float | None, held: Collection[str] = (), relieved: Collection[str] = ()) -> Snapshot:
        """What a policy may see now."""
        now = self._clock.now()
        told = self.places.fresh_places(now)
        reports = self.reports.fresh(now)
        routes = {topic: move.record.newest for topic, move in self.moves.items()}
        clients = self.homes.inhabitants()
        seen = {*(report.broker for report in reports), *self.ring.brokers, *brokers_of(routes.values())}
        found = Snapshot.of(
            reports,
            routes,
            self.ring,
            at_s=now,
            sites=self.brokers.sites,
            draining=[broker for broker in self.brokers.draining if broker in seen],
            planned_s=planned_s,
            renting=self.brokers.joining_count,
            named=[each.topic for place in told for each in place.topics],
            held={*held, *unsettled(clients.values(), routes)},
            relieved=relieved,
        )
        places = places_of(found, told, self.promises.slos)
        processing = processing_of(found.topics, reports, told, self.promises.slos)
        found = replace(found, places=places, homes=self.homes.seen(found.brokers), processing=processing)
        return replace(found, area=area_of(found, clients, routes))

    @property
    def servers(self) -> Brokers:
        return self.brokers

    def at_home(self, broker: str) -> int:
        """How many subscribers of channels it has."""
        return self.homes.residents.at_home(broker)

    def unheard(self) -> list[str]:
        """Brokers that have not reported lately, and whose agent has not been given up."""
        heard = {report.broker for report in self.reports.fresh(self._clock.now())}
        return [broker for broker in self.brokers.present if broker not in heard and not self.agents.away(broker)]

    def drained(self, topic: str, brokers: tuple[str, ...], was: Route, reason: str) -> None:
        """Notes why the topic moves, which no policy wanted and no operator asked for by its name."""
        self.decisions.begun(topic, was.strategy, brokers, Why(DRAINING, reason), was)

    def apart(self, topics: Collection[str]) -> set[str]:
        return self.places.apart(topics, self._clock.now())

    def movable(self, topic: str) -> bool:
        return self._moves.movable(topic)

    async def change_ring(self, brokers: tuple[str, ...]) -> None:
        """Raises MoveRefused when a topic cannot be pinned now, and LeaseLost."""
        await self.rings.change(brokers)

    async def write(self, records: Records, put: Callable[[], Awaitable[None]]) -> None:
        """Until it is known to be written: what only the next leader learns of comes as a surprise to all.

        Raises LeaseLost, also when another has led since `records` were read.
        """
        written = False
        while not written:
            self.must_lead(records)
            try:
                await put()
                written = True
            except Conflict:
                if self.records is records:
                    self.step_down()
            except StoreDown:
                await self._clock.sleep(self.timing.retry_s)
        self.must_lead(records)

    # Leadership

    async def _lead(self) -> None:
        """Holds the leader's lease, or tries to get it, for ever."""
        ttl_s = self.timing.lease_s
        while True:
            asked_s = self._clock.now()
            try:
                term = await self._store.acquire(_LEADER, self.name, ttl_s)
                if term != self.term or not self.leading:
                    # Others may have led since, or we did nothing about what we heard and wrote, the lease being out.
                    self.step_down()
                if term is not None:
                    self._lead_until_s = asked_s + ttl_s
                    if term != self.term:
                        await self._take_over(term)
                    self._set_alarm()
            except (StoreDown, Conflict):
                pass  # nothing moves; when our lease runs out we stop acting
            except StoreError:
                # Nobody moves a topic whose record it cannot read; a coordinator of another version may.
                _log.exception("coordinator %r cannot lead", self.name)
                await self._resign()
            await self._clock.sleep(ttl_s / 4)

    async def _take_over(self, term: int) -> None:
        records = Records(self._store, fenced=self.rules.terms)
        loaded = await records.load()
        stored = await records.load_ring()
        if stored is not None and stored.version > self.ring.version:
            self.ring = stored
        # Written anew, as every topic's record is: a write of an earlier leader that is still on its way is refused.
        await records.save_ring(self.ring)
        for each in records.brokers:
            await records.save_broker(each)
        for topic, slo in records.promises.items():
            await records.save_promise(topic, slo)
        self.records = records
        self.term = term
        self.agents.forget(self._clock.now())
        self._moves.taken_over(loaded)
        self.brokers.taken_over(records.brokers)
        self.promises.taken_over(records.promises)
        self.homes.forget()
        self.decisions.taken_over(loaded)
        self._moves.resume(term)
        self._set_alarm()

    def step_down(self) -> None:
        if self.term is not None and self.rules.terms:
            self.term = None
            self._moves.forget()
            self.reports = Reports()
            self.places = BrokerPlaces()
            self._chart = Chart(self.places)
            self.promises.forget()
            self.decisions.forget()
            self._time.led()
            self.rebalancer.forget()
            self.homes.forget()
            self.brokers.forget()

    async def _resign(self) -> None:
        with contextlib.suppress(StoreDown):  # then the lease runs out by itself
            await self._store.release(_LEADER, self.name)

    def must_lead(self, records: Records | None = None) -> None:
        """With `records`: and has done so since they were read."""
        if not self.leading or records not in {None, self.records}:
            raise LeaseLost(f"coordinator {self.name!r} does not lead now; ask the one that does")

    # What agents say

    def _inbox(self, broker: str) -> Inbox:
        assert broker == self._bus
        return Inbox(COORDINATOR_SUBJECT, self._receive)

    def _receive(self, data: bytes) -> None:
        message = self.rejects.read(lambda: unseal(data, self._dialect), "agents")
        now = self._clock.now()
        if not self.leading:
            if isinstance(message, Alive):
                self._time.overhear(message, now)
            return
        match message:
            case Ack() if message.topic in self.moves:
                if self.agents.speaks(message.broker, message.incarnation):
                    self.do(message.topic, self.moves[message.topic].ack(message, now))
            case Quiet() if message.topic in self.moves:
                self.do(message.topic, self.moves[message.topic].quiet(message))
            case Frozen():
                self.rings.frozen(message)
            case Alive():
                self._heard(message, now)
            case Load():
                self.reports.heard(message, now)
            case Placed():
                self.placed(message)
            case AtHome():
                self.homes.heard(message)
            case (
                MoveOrder()
                | StatusOrder()
                | LoadOrder()
                | RebalanceOrder()
                | BrokerOrder()
                | PromiseOrder()
                | KeepOrder()
                | ProcessOrder()
                | StandingOrder()
                | SnapshotOrder()
                | PlacesOrder()
                | HomesOrder()
                | DryRun()
            ):
                self._orders.take(message)
            case _:
                pass

    def placed(self, message: Placed) -> None:
        """Where a broker and its clients are now."""
        self.places.heard(message, self._clock.now())
        self.decisions.heard(message.place)
        self.rebalancer.observed(self.promises.judged(message.place))

    def _heard(self, message: Alive, now: float) -> None:
        """Rule 9: an agent gets its lease when it knows all it should; a new or returning one is caught up first."""
        broker = message.broker
        if self.brokers.gone(broker):
            return  # what it had is elsewhere: it gets no lease, and answers nobody
        if self.agents.heard(message, now):
            self.rings.anew(broker)
            self._moves.do_all(lambda move: move.agent_back(broker))
        if self.rings.withholds(broker) or any(move.catching_up(broker) for move in self.moves.values()):
            return
        assert self.term is not None
        ring, lease_s = self.ring, self.timing.lease_s
        addresses = addresses_in(self.book, ring.brokers)
        fleet_s = self._time.fleet_s(now, self._clock.wall())
        where = self._chart.of(broker, now)
        self.say(
            broker, Renew(self.term, message.asked_s, lease_s, ring.version, ring.brokers, addresses, fleet_s, where)
        )

    def _answer(self, asker: str, message: Answered) -> None:
        self._pool.publish(self._bus, client_subject(asker), seal(message, self._dialect))

    # Time

    def _set_alarm(self) -> None:
        self._alarm.set(min(self._moves.next_s(), self.agents.next_loss_s()) if self.leading else math.inf)

    def _tick(self) -> None:
        if not self.leading:
            return
        now = self._clock.now()
        if not self._pool.up(self._bus):
            self.agents.deaf(now)
        for broker in self.agents.lost(now):
            self.reports.forget(broker)
            self.places.forget(broker)
            self.homes.lost(broker)
            self._moves.do_all(partial(Move.agent_lost, broker=broker))
        self._moves.tick(now)
        self._set_alarm()

    # Instructions

    def do(self, topic: str, instructions: list[Instruction]) -> None:
        self._moves.do(topic, instructions)

    def _saved(self, record: TopicRecord) -> None:
        if self._on_move is not None:
            self._on_move(record.topic, record.newest.epoch, record.phase)
        self.decisions.moved(record)

    def say(self, broker: str, message: ToAgent | Rehome) -> None:
        if self.leading:
            self._pool.publish(self._bus, agent_bus_subject(broker), seal(message, self._dialect))
