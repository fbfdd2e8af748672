"""Moves with their reasons: every one is written down when it is ordered, when clients are told, when it is over, and
when its effect was measured.

Writing waits for the store, and a move does not wait for the writing.
"""

import logging
from dataclasses import dataclass, replace
from typing import Protocol

from nearcast.control.move import SAME, Move, Same
from nearcast.control.timing import Timing
from nearcast.coordinator.journal import Journal
from nearcast.coordinator.places import BrokerPlaces
from nearcast.coordinator.promises import Promises, measured
from nearcast.domain.decision import Decision, merged
from nearcast.domain.errors import LeaseLost, NearcastError, StoreDown, StoreError
from nearcast.domain.placing import candidates_for
from nearcast.domain.plan import Forecast
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.ring import Ring
from nearcast.domain.route import Delegation, Route, Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.whereabouts import BrokerPlace, TopicPlace
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew

SETTLED_S = 10.0
"""After clients were told of a move: what is reported from then on is of the new broker alone."""

_GIVEN_UP_S = 120.0  # nothing was measured for so long: nobody uses the topic
_SHOWN = 5
_USUAL = 95

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Why:
    """`forecast` None: whoever wants the move knows nothing of promises."""

    policy: str
    reason: str
    plan: int = 0
    forecast: Forecast | None = None


class Deciding(Protocol):
    """What is needed of the coordinator that leads."""

    ring: Ring
    term: int | None
    timing: Timing
    places: BrokerPlaces
    promises: Promises

    @property
    def moves(self) -> dict[str, Move]: ...

    async def move(
        self,
        topic: str,
        strategy: Strategy,
        brokers: tuple[str, ...],
        *,
        eager: bool = True,
        delegation: Delegation | Same | None = SAME,
    ) -> int:
        """Raises MoveRefused or LeaseLost."""
        ...


@dataclass(slots=True)
class _Open:
    """A decision whose move is not over, or not measured."""

    decision: Decision
    begun_s: float
    told_s: float | None = None
    awaited: bool = False  # whoever began it says when clients are told


class Decisions:
    def __init__(self, leader: Deciding, journal: Journal, clock: Clock, crew: Crew) -> None:
        self._leader = leader
        self._journal = journal
        self._clock = clock
        self._crew = crew
        self._count = 0
        self._open: dict[str, _Open] = {}
        self._unwritten: dict[str, tuple[Decision, ...]] = {}
        self._writing = False

    async def move(
        self,
        topic: str,
        strategy: Strategy,
        brokers: tuple[str, ...],
        why: Why,
        *,
        eager: bool = True,
        delegation: Delegation | Same | None = SAME,
    ) -> int:
        """Moves the topic as the leader does, and raises what it raises."""
        before = self._open.get(topic)
        opened = self.begun(topic, strategy, brokers, why, self._route(topic))
        opened.awaited = True
        try:
            epoch = await self._leader.move(topic, strategy, brokers, eager=eager, delegation=delegation)
        except LeaseLost:
            raise  # the next leader goes on with it
        except NearcastError as error:
            if self._open.get(topic) is opened:
                del self._open[topic]
                if before is not None:  # which is under way, and may be why
                    self._open[topic] = before
            self._write(replace(opened.decision, refused=str(error)))
            raise
        self._told(opened, epoch)
        return epoch

    def begun(self, topic: str, strategy: Strategy, brokers: tuple[str, ...], why: Why, was: Route) -> _Open:
        """Notes a move that begins; `was` is where the topic was."""
        self._count += 1
        now = self._clock.now()
        slo = self._leader.promises.slos.get(topic)
        told = [(broker, place) for broker, place, _ in self._leader.places.of(topic, now)]
        decision = Decision(
            f"{self._leader.term or 0}.{self._count}",
            topic,
            round(self._clock.wall(), 3),
            why.policy,
            why.plan,
            why.reason,
            strategy,
            brokers,
            was.strategy,
            was.brokers,
            str(slo or ""),
            why.forecast or _forecast(told, self._leader.places.brokers(now), slo, brokers),
            measured([place for _, place in told], _percentile(slo)),
        )
        self._open[topic] = opened = _Open(decision, now)
        self._write(decision)
        return opened

    def forecast(self, topic: str, brokers: tuple[str, ...], slo: Slo | None = None) -> Forecast:
        """What would come of a move there, that no policy for promises made; of the promise that is, or of `slo`."""
        now = self._clock.now()
        told = [(broker, place) for broker, place, _ in self._leader.places.of(topic, now)]
        slo = slo or self._leader.promises.slos.get(topic)
        return _forecast(told, self._leader.places.brokers(now), slo, brokers)

    def taken_over(self, records: list[TopicRecord]) -> None:
        """Moves that an earlier leader decided on, and that are not over."""
        self._open.clear()
        for record in records:
            if record.phase is not Phase.DONE:
                self._crew.start(self._take_up(record), f"decision on {record.topic}")

    def forget(self) -> None:
        """Another leads, and sees to what is open."""
        self._open.clear()

    def moved(self, record: TopicRecord) -> None:
        """A phase of a move was written. One that nobody waits for is told when that is written."""
        opened = self._open.get(record.topic)
        if opened is None or opened.decision.brokers != record.newest.brokers:
            return
        if record.phase is Phase.TOLD and opened.told_s is None and not opened.awaited:
            self._told(opened, record.newest.epoch)
        elif record.phase is Phase.DONE and opened.decision.epoch == record.newest.epoch:
            took_s = round(self._clock.now() - opened.begun_s, 4)
            opened.decision = replace(opened.decision, done_s=took_s)
            self._write(opened.decision)
            self._close(record.topic, opened)

    def heard(self, place: BrokerPlace) -> None:
        """What an agent measured: of topics that moved there and have settled, it is what came of the decision."""
        if not self._open:
            return
        now = self._clock.now()
        for each in place.topics:
            opened = self._open.get(each.topic)
            if opened is None or opened.told_s is None or place.broker not in opened.decision.brokers:
                continue
            after_s = now - opened.told_s
            found = measured([each], _percentile(self._leader.promises.slos.get(each.topic)))
            if opened.decision.after is None and found is not None and after_s >= SETTLED_S:
                opened.decision = replace(opened.decision, after=replace(found, after_s=round(after_s, 1)))
                self._write(opened.decision)
            self._close(each.topic, opened)

    # Within

    def _told(self, opened: _Open, epoch: int) -> None:
        opened.told_s = self._clock.now()
        took_s = round(opened.told_s - opened.begun_s, 4)
        opened.decision = replace(opened.decision, epoch=epoch, told_s=took_s)
        self._write(opened.decision)

    def _route(self, topic: str) -> Route:
        move = self._leader.moves.get(topic)
        if move is not None:
            return move.record.newest
        return Route(0, Strategy.SINGLE, (self._leader.ring.owner(topic),))

    def _close(self, topic: str, opened: _Open) -> None:
        """Once all is known of it, or it is too late."""
        late = opened.told_s is not None and self._clock.now() > opened.told_s + _GIVEN_UP_S
        decision = opened.decision
        if self._open.get(topic) is opened and decision.done_s is not None and (decision.after is not None or late):
            del self._open[topic]

    async def _take_up(self, record: TopicRecord) -> None:
        try:
            known = await self._journal.read(record.topic)
        except StoreError:
            return
        last = known[-1] if known else None
        if last is None or last.refused or last.brokers != record.newest.brokers or record.topic in self._open:
            return
        now, ago_s = self._clock.now(), max(0.0, self._clock.wall() - last.at_s)
        told_s = now if record.phase is Phase.TOLD else None
        decision = replace(last, epoch=record.newest.epoch)
        self._open[record.topic] = _Open(decision, now - ago_s, told_s)

    # Writing

    def _write(self, decision: Decision) -> None:
        waiting = self._unwritten.get(decision.topic, ())
        self._unwritten[decision.topic] = merged(waiting, (decision,))
        if not self._writing:
            self._writing = True
            self._crew.start(self._write_all(), "decisions are written")

    async def _write_all(self) -> None:
        try:
            while self._unwritten:
                topic = next(iter(self._unwritten))
                decisions = self._unwritten[topic]
                try:
                    await self._journal.add(topic, decisions)
                except StoreDown:
                    await self._clock.sleep(self._leader.timing.retry_s)
                    continue
                except StoreError as error:
                    _log.error("a decision is not written: %s", error)
                if self._unwritten[topic] is decisions:
                    del self._unwritten[topic]
        finally:
            self._writing = False

    async def close(self) -> None:
        """A last try to write what is not written, for as long as the store takes to answer."""
        for topic, decisions in list(self._unwritten.items()):
            try:
                await self._journal.add(topic, decisions)
                del self._unwritten[topic]
            except StoreError as error:
                _log.warning("%d decisions are not written: %s", len(self._unwritten), error)
                return


def _percentile(slo: Slo | None) -> int:
    return _USUAL if slo is None else slo.percentile


def _forecast(
    places: list[tuple[str, TopicPlace]], told: tuple[BrokerPlace, ...], slo: Slo | None, brokers: tuple[str, ...]
) -> Forecast:
    """For a move that no policy for promises made."""
    worst = [each.worst_s for _, each in places if each.publishers and each.subscribers]
    every = candidates_for(places, told, len(told))
    chosen = [each for each in every if each.broker in brokers]
    shown = [*every[:_SHOWN], *(each for each in chosen if each not in every[:_SHOWN])]
    bound_ms = None if slo is None else slo.bound_ms
    return Forecast(
        round(500.0 * max(worst), 3) if worst else None,
        bound_ms,
        max((each.worst_ms for each in chosen), default=None) if len(brokers) == 1 else None,
        tuple(shown),
        sum(bound_ms is None or each.worst_ms <= bound_ms for each in every),
        len(every),
    )
