"""Policies `ktcp-ffd`, `ktcp-lfs`, `ktcp-hybrid` and `ktcp-exact`: processed topics share the fewest brokers that keep
their promises (seed 001, section V; see `colocation`).

Each topic has a bound of its own; `margin_ms` is kept off it. Without a trained model the estimate of a queue decides.
Intervals and rates are rounded up to two digits, so that topics are of a few kinds.

A topic whose promise is measured to be broken, although the model expects it to be kept where it is, is as much slower
everywhere as it is there (section IV-E): so it goes to fewer others, or to none.

Topics stay while their brokers keep all promises and no fewer brokers would do. Else each set of a new placement goes
to the broker that has most of it already. Topics on several brokers, held ones, and those that no broker could serve
even alone stay where they are, and their brokers take no others. How far away clients are is not considered, as in the
paper: but no topic goes where that alone would break its promise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearcast.domain.plan import Forecast, Plan, Step
from nearcast.domain.processing import Processing
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import STRATEGIES, Bools, Floats, Ints, Snapshot
from nearcast.policies.colocation import Placed, Predictor, Topics, exact, first_fit, hybrid, largest_set
from nearcast.policies.rest import Rest, at_rest
from nearcast.policies.settings import Colocation, Settings
from nearcast.predict.queueing import QueueModel

FFD, LFS, HYBRID, EXACT = "ktcp-ffd", "ktcp-lfs", "ktcp-hybrid", "ktcp-exact"

_DIGITS = 2


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
    problem = _Problem(snapshot, processing, settings.colocation)
    reasons = problem.reasons()
    if not len(problem.mine):
        return Plan(name, now_s, reasons=tuple(reasons))
    placed = place(problem.topics, problem.most)
    present = problem.present()
    if all(map(problem.keeps, present)) and len(present) <= len(placed):
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
        reasons=(*reasons, f"{len(placed)} brokers for {len(problem.mine)} topics, where now there are {len(present)}"),
        load_ratios=moves.load_ratios(),
    )


class _Problem:
    """The topics that may be placed, in the order of FFD; `mine` are their indices in the snapshot."""

    def __init__(self, snapshot: Snapshot, processing: Processing, colocation: Colocation) -> None:
        self.snapshot = snapshot
        self.processing = processing
        predictor: Predictor = colocation.model or QueueModel(colocation.processors)
        self.most = min(colocation.most, predictor.most)
        self._bound_ms = processing.bound_ms - colocation.margin_ms
        entries = snapshot.entries
        published = np.bincount(entries.topic, weights=entries.publications, minlength=len(snapshot.topics))
        self.broker: Ints = snapshot.members[snapshot.first[:-1]]
        processed = (processing.interval_ms > 0.0) & (published > 0.0)
        single = snapshot.strategy == STRATEGIES.index(Strategy.SINGLE)
        movable = processed & single & ~snapshot.held & ~snapshot.silent[self.broker]
        candidates = np.flatnonzero(movable)
        interval_ms, rate_hz = rounded_up(processing.interval_ms), rounded_up(published.astype(np.float64))

        def expected_ms(sets: Ints) -> Floats:
            return predictor.p90_ms(interval_ms[sets], rate_hz[sets])

        self._bound_ms /= _slower(self.broker, candidates, processing, expected_ms, predictor.most)
        alone_ms = expected_ms(candidates[:, None])[:, 0]
        fits = alone_ms <= self._bound_ms[candidates]
        self.too_heavy: Ints = candidates[~fits]
        self.mine: Ints = candidates[fits][np.lexsort((candidates[fits], -alone_ms[fits]))]
        stays = processed.copy()
        stays[self.mine] = False
        self.taken: Bools = np.zeros(len(snapshot.brokers), dtype=np.bool_)
        rows = np.repeat(np.arange(len(snapshot.topics)), np.diff(snapshot.first))
        self.taken[snapshot.members[stays[rows]]] = True
        columns = (interval_ms[self.mine], rate_hz[self.mine], self._bound_ms[self.mine])
        self.topics = Topics(predictor, *columns)
        self._predictor, self._columns = predictor, columns

    def reasons(self) -> list[str]:
        if not len(self.too_heavy):
            return []
        names = ", ".join(self.snapshot.topics[at] for at in self.too_heavy[:3].tolist())
        return [f"{len(self.too_heavy)} topics are more than a broker can serve in time even alone: {names}"]

    def present(self) -> list[list[int]]:
        """Who shares a broker now, by the order of `mine`."""
        found: dict[int, list[int]] = {}
        for at, broker in enumerate(self.broker[self.mine].tolist()):
            found.setdefault(broker, []).append(at)
        return [found[broker] for broker in sorted(found)]

    def keeps(self, content: list[int]) -> bool:
        """Whether these are expected to keep their promises at one broker."""
        if len(content) > self.most:
            return False
        return bool(self.topics.feasible(np.array([content]))[0])

    def p90_ms(self, content: list[int]) -> Floats:
        interval_ms, rate_hz, _ = (column[content][None, :] for column in self._columns)
        found: Floats = self._predictor.p90_ms(interval_ms, rate_hz)[0]
        return found


def _slower(broker: Ints, topics: Ints, processing: Processing, p90_ms: Callable[[Ints], Floats], most: int) -> Floats:
    """How much slower topics are than the model thinks, where that breaks their promise; 1 for all others."""
    found = np.ones(len(broker))
    late = topics[processing.p90_ms[topics] > processing.bound_ms[topics]]
    for at in np.unique(broker[late]).tolist():
        here = topics[broker[topics] == at]
        if len(here) <= most:
            ratio = processing.p90_ms[here] / p90_ms(here[None, :])[0]
            wrong = np.isin(here, late) & (ratio > 1.0)
            found[here[wrong]] = ratio[wrong]
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
        for number, content in enumerate(placed):
            broker = at[number] if number in at else next(empty, None)
            if broker is None:
                unplaced += 1
            else:
                self._move(content, broker)
        return unplaced

    def _most_alike(self, placed: Placed, free: Bools) -> dict[int, int]:
        """Sets to the brokers that have most of them already; `free` loses those."""
        pairs: dict[tuple[int, int], int] = {}
        for number, content in enumerate(placed):
            for broker in self._problem.broker[self._problem.mine[content]].tolist():
                pairs[number, broker] = pairs.get((number, broker), 0) + 1
        found: dict[int, int] = {}
        for (number, broker), _ in sorted(pairs.items(), key=lambda each: (-each[1], each[0])):
            if number not in found and free[broker]:
                found[number] = broker
                free[broker] = False
        return found

    def _move(self, content: list[int], broker: int) -> None:
        problem = self._problem
        expected_ms = problem.p90_ms(content)
        for at, p90_ms in zip(content, expected_ms.tolist(), strict=True):
            topic = int(problem.mine[at])
            source = int(problem.broker[topic])
            if source == broker:
                continue
            if not self._may_go(topic, source, broker):
                self.refused += 1
                continue
            self._load[source] -= self._bytes[topic]
            self._load[broker] += self._bytes[topic]
            self.steps.append(self._step(topic, broker, len(content), p90_ms))

    def _may_go(self, topic: int, source: int, broker: int) -> bool:
        ratio = (self._load[broker] + self._bytes[topic]) / self._snapshot.capacity[broker]
        if ratio > self._settings.full_ratio:
            return False
        places = self._snapshot.places
        if places is None or not places.promised[topic]:
            return True
        ends = np.array([topic, topic]), np.array([source, broker])
        was_s, will_s = places.expected_s(*ends).tolist()
        return not will_s > max(float(places.bound_s[topic]), np.inf if np.isnan(was_s) else was_s)

    def _step(self, topic: int, broker: int, together: int, p90_ms: float) -> Step:
        snapshot, processing = self._snapshot, self._problem.processing
        measured_ms, bound_ms = float(processing.p90_ms[topic]), float(processing.bound_ms[topic])
        with_others = f"with {together - 1} others" if together > 1 else "alone"
        name = snapshot.brokers[broker]
        why = f"at {name}, {with_others}, 90 of 100 messages are expected within {p90_ms:.0f} ms"
        if measured_ms > bound_ms:
            why = f"90 of 100 messages took {measured_ms:.0f} ms, and {bound_ms:.0f} ms are promised; {why}"
        return Step(
            snapshot.topics[topic],
            Strategy.SINGLE,
            (name,),
            snapshot.strategy_of(topic),
            snapshot.brokers_of(topic),
            why,
            Forecast(
                None if np.isnan(measured_ms) else round(measured_ms, 3),
                bound_ms if bound_ms < np.inf else None,
                round(p90_ms, 3),
            ),
        )

    def load_ratios(self) -> tuple[tuple[str, float], ...]:
        usable = np.flatnonzero(self._snapshot.usable)
        ratios = self._load[usable] / self._snapshot.capacity[usable]  # of who is silent no capacity is known
        return tuple(
            (self._snapshot.brokers[at], ratio) for at, ratio in zip(usable.tolist(), ratios.tolist(), strict=True)
        )


def rounded_up(values: Floats) -> Floats:
    """To two digits: what is more than it is said to be would break a promise."""
    known = values > 0.0
    unit = 10.0 ** (np.floor(np.log10(np.where(known, values, 1.0))) - (_DIGITS - 1))
    return np.where(known, np.ceil(values / unit - 1e-9) * unit, values)
