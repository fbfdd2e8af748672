"""Policies `ktcp-ffd`, `ktcp-lfs`, `ktcp-hybrid` and `ktcp-exact`: processed topics share the fewest brokers that keep
their promises (Khare, section V; see `colocation`).

Each topic has a bound of its own; `margin_ms` is kept off it. Without a trained model the estimate of a queue decides.
Intervals and rates are rounded up to two digits, so that topics are of a few kinds.

What subscribers measure is believed (section IV-E): a topic that is later than the model expects where it is takes
longer than is said, everywhere, by as much as explains it (`times_slower`). So it goes to fewer others, or to none.

A topic that no broker could serve even alone is shared by as many as it needs (`all_subscribers`): its publishers are
parted, which the paper leaves out. Each part is placed as a topic of its own, no two at one broker.

Topics stay while their brokers keep all promises and no fewer brokers would do. Else each set of a new placement goes
to the broker that has most of it already. Held topics, those on several brokers for another reason, and those that
cannot even be shared stay where they are, and their brokers take no others. How far away clients are is not
considered, as in the paper: but no topic goes where that alone would break its promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nearcast.domain.plan import Forecast, Plan, Step
from nearcast.domain.processing import Processing
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import STRATEGIES, Bools, Floats, Ints, Snapshot
from nearcast.policies.colocation import Placed, Predictor, Topics, exact, first_fit, hybrid, largest_set
from nearcast.policies.ktcp_parts import can_move, parts_needed, published, rounded_up
from nearcast.policies.ktcp_slower import times_slower
from nearcast.policies.rest import Rest, at_rest
from nearcast.policies.settings import Settings
from nearcast.predict.queueing import QueueModel

FFD, LFS, HYBRID, EXACT = "ktcp-ffd", "ktcp-lfs", "ktcp-hybrid", "ktcp-exact"

_NAMED = 3  # topics, in a reason


class _Part(NamedTuple):
    """A topic or a part of one: where it is placed, with how many there, and what is expected of it."""

    broker: int
    together: int
    p90_ms: float


def ktcp_ffd(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
    return _planned(FFD, snapshot, settings, now_s, first_fit)


def ktcp_lfs(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
    return _planned(LFS, snapshot, settings, now_s, largest_set)


def ktcp_hybrid(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
    def place(topics: Topics, most: int) -> Placed:
        return hybrid(topics, min(settings.colocation.searched, most), most)

    return _planned(HYBRID, snapshot, settings, now_s, place)


def ktcp_exact(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
    return _planned(EXACT, snapshot, settings, now_s, exact)


def _planned(
    name: str, snapshot: Snapshot, settings: Settings, now_s: float, place: Callable[[Topics, int], Placed]
) -> Plan:
    processing = snapshot.processing
    if processing is None or not np.any(processing.interval_ms > 0.0):
        return Plan(name, now_s, reasons=("no topic is processed",))
    problem = _Problem(snapshot, processing, settings)
    reasons = problem.reasons()
    if not len(problem.mine):
        return Plan(name, now_s, reasons=tuple(reasons))
    placed = place(problem.topics, problem.most)
    present = problem.present()
    if present is not None and all(map(problem.keeps, present)) and len(present) <= len(placed):
        return Plan(name, now_s, reasons=(*reasons, f"{len(present)} brokers keep every promise, and no fewer would"))
    moves = _Moves(problem, at_rest(snapshot), settings)
    unplaced = moves.take(placed)
    rent = 0
    if unplaced:
        room = np.inf if settings.max_brokers is None else settings.max_brokers - len(snapshot.brokers)
        rent = int(max(0, min(unplaced - snapshot.renting, room)))
        reasons.append(f"{unplaced} sets of topics stay where they are: there is no broker for them")
    if moves.refused:
        reasons.append(f"{moves.refused} topics stay: they do not fit the line of their new broker, or it is too far")
    return Plan(
        name,
        now_s,
        steps=tuple(moves.steps),
        rent=rent,
        reasons=(*reasons, f"{len(placed)} brokers for {len(np.unique(problem.mine))} topics"),
        load_ratios=moves.load_ratios(),
    )


class _Problem:
    """The topics that may be placed, or their parts, in the order of FFD: `mine` are their topics in the snapshot."""

    def __init__(self, snapshot: Snapshot, processing: Processing, settings: Settings) -> None:
        colocation = settings.colocation
        self.snapshot = snapshot
        self.processing = processing
        predictor: Predictor = colocation.model or QueueModel(colocation.processors)
        self.most = min(colocation.most, predictor.most)
        bound_ms = processing.bound_ms - colocation.margin_ms
        rate_hz, publishers = published(snapshot)
        self.broker: Ints = snapshot.members[snapshot.first[:-1]]
        processed = (processing.interval_ms > 0.0) & (rate_hz > 0.0)
        candidates = np.flatnonzero(processed & ~snapshot.held & can_move(snapshot))
        interval_ms = rounded_up(processing.interval_ms)
        single = candidates[snapshot.strategy[candidates] == STRATEGIES.index(Strategy.SINGLE)]
        asked = interval_ms, rounded_up(rate_hz)
        self.slower: Floats = times_slower(self.broker, single, processing, predictor, *asked)
        interval_ms = rounded_up(interval_ms * self.slower)

        def keeps_alone(topics: Ints, part_hz: Floats) -> Bools:
            found = predictor.p90_ms(interval_ms[topics, None], rounded_up(part_hz)[:, None])[:, 0]
            kept: Bools = found <= bound_ms[topics]
            return kept

        most_parts = np.minimum(publishers, min(settings.replication.most, int(snapshot.usable.sum())))
        counts = parts_needed(
            snapshot,
            candidates,
            rate_hz,
            most=most_parts,
            keeps_alone=keeps_alone,
            keep_ratio=settings.replication.keep_ratio,
        )
        self.too_heavy: Ints = candidates[counts == 0]
        self.parts: Ints = np.zeros(len(snapshot.topics), dtype=np.int64)
        self.parts[candidates] = counts
        mine = np.repeat(candidates, counts)
        part_hz = rounded_up(rate_hz[mine] / np.maximum(1, self.parts[mine]))
        alone_ms = predictor.p90_ms(interval_ms[mine, None], part_hz[:, None])[:, 0] if len(mine) else np.empty(0)
        order = np.lexsort((mine, -alone_ms))
        self.mine: Ints = mine[order]
        stays = processed & (self.parts == 0)
        self.taken: Bools = np.zeros(len(snapshot.brokers), dtype=np.bool_)
        rows = np.repeat(np.arange(len(snapshot.topics)), np.diff(snapshot.first))
        self.taken[snapshot.members[stays[rows]]] = True
        columns = (interval_ms[self.mine], part_hz[order], bound_ms[self.mine])
        self.topics = Topics(predictor, *columns, apart=self.mine)
        self._predictor, self._columns = predictor, columns
        self._troubles: dict[int, str] = {}

    def reasons(self) -> list[str]:
        names, parted = self.snapshot.topics, np.flatnonzero(self.parts > 1)
        found = [
            f"{names[at]} is more than one broker can serve in time: {self.parts[at]} share it"
            for at in parted[:_NAMED].tolist()
        ]
        if len(parted) > _NAMED:
            found.append(f"{len(parted) - _NAMED} further topics are shared by several brokers each")
        if len(self.too_heavy):
            heavy = ", ".join(names[at] for at in self.too_heavy[:_NAMED].tolist())
            found.append(
                f"{len(self.too_heavy)} topics are more than a broker can serve in time even alone, and cannot be"
                f" shared by more: {heavy}"
            )
        return found

    def present(self) -> list[list[int]] | None:
        """Who shares a broker now, by the order of `mine`; None when a topic is on fewer or more than it should be, or
        beside one that no broker can serve."""
        found: dict[int, list[int]] = {}
        which: dict[int, int] = {}  # of a topic: how many of its parts have a broker
        first, members = self.snapshot.first, self.snapshot.members
        if np.any(np.diff(first)[self.mine] != self.parts[self.mine]):
            return None
        crowded = {at for topic in self.too_heavy.tolist() for at in self.brokers_of(topic)}
        for at, topic in enumerate(self.mine.tolist()):
            part = which.get(topic, 0)
            which[topic] = part + 1
            found.setdefault(int(members[first[topic] + part]), []).append(at)
        if crowded & found.keys():
            return None
        return [found[broker] for broker in sorted(found)]

    def brokers_of(self, topic: int) -> list[int]:
        found: list[int] = self.snapshot.members[self.snapshot.first[topic] : self.snapshot.first[topic + 1]].tolist()
        return found

    def keeps(self, content: list[int]) -> bool:
        """Whether these are expected to keep their promises at one broker."""
        if len(content) > self.most:
            return False
        return bool(self.topics.feasible(np.array([content]))[0])

    def trouble(self, broker: int) -> str:
        """Why those at the broker cannot all stay; empty where they could."""
        if broker not in self._troubles:
            self._troubles[broker] = self._trouble(broker)
        return self._troubles[broker]

    def _trouble(self, broker: int) -> str:
        here = np.flatnonzero((self.broker[self.mine] == broker) & (self.parts[self.mine] == 1))
        if not len(here):
            return ""
        name, processing = self.snapshot.brokers[broker], self.processing
        p90_ms, bound_ms = processing.p90_ms[self.mine[here]], processing.bound_ms[self.mine[here]]
        over = np.nan_to_num(p90_ms / bound_ms)
        if over.max() > 1.0:
            at = int(np.argmax(over))
            took, topic = f"took {p90_ms[at]:.0f} ms", self.snapshot.topics[self.mine[here[at]]]
            return f"at {name} 90 of 100 messages of {topic} {took}, and {bound_ms[at]:.0f} ms are promised"
        if len(here) > self.most:
            return f"{len(here)} topics are at {name}, and at most {self.most} may share a broker"
        expected_ms = np.array(self.p90_ms([here.tolist()])[0])
        late = np.flatnonzero(expected_ms > self._columns[2][here])
        if not len(late):
            return ""
        at = late[int(np.argmax(expected_ms[late] / bound_ms[late]))]
        wanted, topic = f"are expected to take {expected_ms[at]:.0f} ms", self.snapshot.topics[self.mine[here[at]]]
        return f"at {name} 90 of 100 messages of {topic} {wanted}, and {bound_ms[at]:.0f} ms are promised"

    def p90_ms(self, sets: Placed) -> list[list[float]]:
        """What is expected of each set's members: one prediction for all sets of a size."""
        found: list[list[float]] = [[] for _ in sets]
        for size in sorted({len(each) for each in sets}):
            which = [number for number, each in enumerate(sets) if len(each) == size]
            members = np.array([sets[number] for number in which])
            interval_ms, rate_hz, _ = (column[members] for column in self._columns)
            for number, expected in zip(which, self._predictor.p90_ms(interval_ms, rate_hz).tolist(), strict=True):
                found[number] = expected
        return found


class _Moves:
    """The steps from where topics are to a placement, with the loads that brokers then have."""

    def __init__(self, problem: _Problem, rest: Rest, settings: Settings) -> None:
        self._problem = problem
        self._snapshot = snapshot = problem.snapshot
        self._settings = settings
        self._load = rest.load.copy()
        self._bytes = np.bincount(rest.row_topic, weights=rest.row_bytes, minlength=len(snapshot.topics))
        self.steps: list[Step] = []
        self.refused = 0

    def take(self, placed: Placed) -> int:
        """Gives every set a broker, and returns for how many there is none."""
        free = self._snapshot.usable & ~self._problem.taken
        at = self._most_alike(placed, free)
        empty = iter(np.flatnonzero(free).tolist())
        unplaced = 0
        going: dict[int, list[_Part]] = {}
        for number, (content, expected_ms) in enumerate(zip(placed, self._problem.p90_ms(placed), strict=True)):
            broker = at[number] if number in at else next(empty, None)
            if broker is None:
                unplaced += 1
                continue
            for unit, p90_ms in zip(content, expected_ms, strict=True):
                going.setdefault(int(self._problem.mine[unit]), []).append(_Part(broker, len(content), p90_ms))
        for topic, parts in going.items():
            self._move(topic, sorted(parts))
        return unplaced

    def _most_alike(self, placed: Placed, free: Bools) -> dict[int, int]:
        """Sets to the brokers that have most of them already, which `free` loses. Of equals, who is in time stays."""
        processing, mine = self._problem.processing, self._problem.mine
        late = processing.p90_ms > processing.bound_ms
        pairs: dict[tuple[int, int], int] = {}
        for number, content in enumerate(placed):
            for topic in mine[content].tolist():
                for broker in self._problem.brokers_of(topic):
                    pairs[number, broker] = pairs.get((number, broker), 0) + 1
        found: dict[int, int] = {}
        order = {number: bool(late[mine[content]].any()) for number, content in enumerate(placed)}
        for (number, broker), _ in sorted(pairs.items(), key=lambda each: (-each[1], order[each[0][0]], each[0])):
            if number not in found and free[broker]:
                found[number] = broker
                free[broker] = False
        return found

    def _move(self, topic: int, parts: list[_Part]) -> None:
        problem = self._problem
        before, after = problem.brokers_of(topic), [each.broker for each in parts]
        if len(parts) < problem.parts[topic] or sorted(before) == after:
            return  # there is no broker for all of it, or it is where it should be
        if not all(self._may_go(topic, before, broker, len(after)) for broker in after if broker not in before):
            self.refused += 1
            return
        for broker in before:
            self._load[broker] -= self._bytes[topic] / len(before)
        for broker in after:
            self._load[broker] += self._bytes[topic] / len(after)
        self.steps.append(self._step(topic, parts))

    def _may_go(self, topic: int, before: list[int], broker: int, parts: int) -> bool:
        ratio = (self._load[broker] + self._bytes[topic] / parts) / self._snapshot.capacity[broker]
        if ratio > self._settings.full_ratio:
            return False
        places = self._snapshot.places
        if places is None or not places.promised[topic]:
            return True
        ends = np.array([topic, topic]), np.array([before[0], broker])
        was_s, will_s = places.expected_s(*ends).tolist()
        return not will_s > max(float(places.bound_s[topic]), np.inf if np.isnan(was_s) else was_s)

    def _step(self, topic: int, parts: list[_Part]) -> Step:
        snapshot, processing = self._snapshot, self._problem.processing
        measured_ms, bound_ms = float(processing.p90_ms[topic]), float(processing.bound_ms[topic])
        return Step(
            snapshot.topics[topic],
            Strategy.SINGLE if len(parts) == 1 else Strategy.ALL_SUBSCRIBERS,
            tuple(snapshot.brokers[each.broker] for each in parts),
            snapshot.strategy_of(topic),
            snapshot.brokers_of(topic),
            self._why(topic, parts),
            Forecast(
                None if np.isnan(measured_ms) else round(measured_ms, 3),
                bound_ms if bound_ms < np.inf else None,
                round(max(each.p90_ms for each in parts), 3),
            ),
        )

    def _why(self, topic: int, parts: list[_Part]) -> str:
        """What is wrong where it is, of itself or else of others there, and what is expected where it goes."""
        processing, names = self._problem.processing, [self._snapshot.brokers[each.broker] for each in parts]
        measured_ms, bound_ms = float(processing.p90_ms[topic]), float(processing.bound_ms[topic])
        why = f"90 of 100 messages are expected within {max(each.p90_ms for each in parts):.0f} ms"
        if len(parts) > 1:
            why = f"shared by {', '.join(names)}, because one broker could not serve it in time, {why}"
        else:
            together = parts[0].together
            why = f"at {names[0]}, {f'with {together - 1} others' if together > 1 else 'alone'}, {why}"
        if measured_ms > bound_ms:
            return f"90 of 100 messages took {measured_ms:.0f} ms, and {bound_ms:.0f} ms are promised; {why}"
        return "; ".join(filter(None, (self._problem.trouble(int(self._problem.broker[topic])), why)))

    def load_ratios(self) -> tuple[tuple[str, float], ...]:
        usable = np.flatnonzero(self._snapshot.usable)
        ratios = self._load[usable] / self._snapshot.capacity[usable]  # of who is silent no capacity is known
        return tuple(
            (self._snapshot.brokers[at], ratio) for at, ratio in zip(usable.tolist(), ratios.tolist(), strict=True)
        )
