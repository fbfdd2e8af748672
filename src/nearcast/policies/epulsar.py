"""Policies `epulsar` and `all-pairs`: topics are where their latency promise is kept, and no broker is overloaded.

ePulsar's Algorithm 1 (section 3.3). Topics whose promise is broken leave their broker, and so do the heaviest
topics of overloaded brokers (see `overload`). Each is given the broker with the smallest worst case of those that would
keep its promise and are not overloaded by it; those with the fewest such brokers choose first. `all-pairs` is the same
with every single client in view, where `epulsar` has the middle of them and how far the farthest are away.

A topic moves for its promise only to a broker that would keep it with a hundredth to spare, or that is better by a
twentieth at least, of what differs between brokers, so that it does not go to and fro between two that are nearly
equal. Where all clients have measured a broker, that counts in place of the prediction; one that is only predicted must
be better than what is predicted for the present broker, too. Topics on several brokers are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from nearcast.domain.errors import SnapshotError
from nearcast.domain.places import Places
from nearcast.domain.plan import Candidate, Forecast, Plan, Step
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import STRATEGIES, Bools, Floats, Ints, Snapshot
from nearcast.policies.overload import Burden
from nearcast.policies.rest import at_rest
from nearcast.policies.settings import Settings

NAME = "epulsar"
ALL_PAIRS = "all-pairs"

_AT_ONCE = (
    256  # topics whose worst cases at all brokers are computed at a time: with 1,000 brokers they stay in a cache
)
_FEW = 8
_SHOWN = 5  # candidates that a step tells of
_BETTER = 0.95
_KEPT = 0.99
_NOBODY = np.zeros(0, dtype=np.int64)


class Prediction(NamedTuple):
    """`worst_s` of topics at every broker, and what of that is the `same_s` at all of them. `likely_s`: what a broker
    that nobody measured must not be above, by where topics are.
    """

    worst_s: Callable[[Places, Ints], Floats]
    same_s: Callable[[Places, Ints], Floats]
    likely_s: Callable[[Places, Ints, Ints], Floats]


def epulsar(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
    return _planned(NAME, snapshot, settings, now_s, BY_MIDDLES)


def all_pairs(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
    if snapshot.places is not None and snapshot.places.clients is None:
        raise SnapshotError(
            f"snapshot: policy {ALL_PAIRS!r} needs the place of every client, and there are none: agents report the"
            f" middles of a topic's clients, however many they are. It is for the lab; a fleet has {NAME!r}"
        )
    return _planned(ALL_PAIRS, snapshot, settings, now_s, BY_CLIENTS)


# Section 3.4.1: what a broker would mean for a topic


def by_middles(places: Places, topics: Ints) -> Floats:
    """What is expected of each broker: measured, or else W(t, b), by the middles of both sides.

    0 for a topic of which a side is not there: it is at home everywhere. Infinite at a broker that nobody has placed.
    """
    found = np.nan_to_num(places.expected_anywhere_s(topics))
    found[:, np.isnan(places.brokers.height)] = np.inf
    return found


def by_clients(places: Places, topics: Ints) -> Floats:
    """The farthest publisher and the farthest subscriber of each topic, at every broker."""
    clients = places.clients
    assert clients is not None
    found = np.zeros((len(topics), len(places.brokers)))
    row = np.full(int(clients.topic.max(initial=-1)) + 1, -1)
    row[topics[topics < len(row)]] = np.flatnonzero(topics < len(row))
    for side in (clients.publishes, clients.subscribes):
        mine = np.flatnonzero(side & (row[clients.topic] >= 0))
        if len(mine):
            farthest = np.full_like(found, -np.inf)
            np.maximum.at(farthest, row[clients.topic[mine]], clients.at[mine].to(places.brokers))
            found += farthest
    return found


def _alike(places: Places, topics: Ints) -> Floats:
    """What W(t, b) has of the topic alone. Of measured worst cases nothing is the same everywhere."""
    return np.where(places.has_measured(topics), 0.0, places.deviation_s[topics])


def _likely(places: Places, topics: Ints, brokers: Ints) -> Floats:
    """Better than what is predicted for `brokers`, where they are. Any, where nothing was measured."""
    deviation_s = places.deviation_s[topics]
    found = deviation_s + _BETTER * (places.predicted_s(topics, brokers) - deviation_s)
    return np.where(places.has_measured(topics) & ~np.isnan(found), found, np.inf)


BY_MIDDLES = Prediction(by_middles, _alike, _likely)
BY_CLIENTS = Prediction(
    by_clients,
    lambda _places, topics: np.zeros(len(topics)),
    lambda _places, topics, _brokers: np.full(len(topics), np.inf),
)


# Algorithm 1


def _planned(name: str, snapshot: Snapshot, settings: Settings, now_s: float, predict: Prediction) -> Plan:
    places = snapshot.places
    if places is None:
        raise SnapshotError(f"snapshot: policy {name!r} needs to know where brokers and clients are, and nobody said")
    burden = Burden(snapshot, at_rest(snapshot), settings)
    single = snapshot.strategy == STRATEGIES.index(Strategy.SINGLE)
    movable = single & ~snapshot.silent[burden.broker] & ~snapshot.held

    violated = movable & places.promised & (places.worst_s > places.bound_s)
    leaving = dict.fromkeys(np.flatnonzero(violated).tolist(), "")
    leaving |= _relieving(burden, movable & ~violated, np.flatnonzero(violated))
    resting = int(np.count_nonzero(burden.unrelieved()))
    for_load = {topic for topic, why in leaving.items() if why}
    steps, stayed = _place(snapshot, burden, leaving, predict)
    # Where the heaviest find no other broker, lighter ones may.
    untried = movable.copy()
    untried[[*for_load, *steps]] = False
    while leaving := _relieving(burden, untried & burden.may_fit()):
        steps |= _place(snapshot, burden, leaving, predict)[0]
        for_load |= leaving.keys()
        untried[list(leaving)] = False
    reasons = []
    held = int(np.count_nonzero(snapshot.held & places.promised & (places.worst_s > places.bound_s)))
    if held:
        reasons.append(f"{held} topics stay although their promise is broken: they are held back, having moved lately")
    if stayed:
        reasons.append(
            f"{stayed} topics stay although their promise is broken: no broker keeps it, or is better by a twentieth"
        )
    if resting:
        reasons.append(
            f"{resting} brokers keep their topics although they use too much: it may not show yet that others have left"
            " them"
        )
    usable = np.flatnonzero(snapshot.usable).tolist()
    ratios = burden.bandwidth_ratios
    return Plan(
        name,
        now_s,
        steps=tuple(steps.values()),
        reasons=tuple(reasons),
        load_ratios=tuple((snapshot.brokers[at], float(ratios[at])) for at in usable),
        relieved=tuple(sorted({steps[topic].was_brokers[0] for topic in for_load & steps.keys()})),
    )


def _relieving(burden: Burden, may_leave: Bools, gone: Ints = _NOBODY) -> dict[int, str]:
    """The topics that leave overloaded brokers beside those that are gone, each with the reason."""
    found: dict[int, str] = {}
    for at in np.flatnonzero(burden.overloaded()).tolist():
        here = gone[burden.broker[gone] == at]
        found |= dict.fromkeys(burden.heaviest(at, may_leave, here), burden.reason(at))
    return found


def _place(
    snapshot: Snapshot, burden: Burden, leaving: dict[int, str], predict: Prediction
) -> tuple[dict[int, Step], int]:
    """The steps of topics that move, those with the fewest brokers to go to first; and how many stay although their
    promise is broken. `burden` follows."""
    places = snapshot.places
    assert places is not None
    topics = np.array(list(leaving), dtype=np.int64)
    if not len(topics):
        return {}, 0
    candidates = _Candidates(snapshot, topics, predict)
    steps: dict[int, Step] = {}
    stayed = 0
    for row in np.lexsort((topics, candidates.feasible)).tolist():
        topic = int(topics[row])
        source = int(burden.broker[topic])
        full: list[int] = []
        for receiver, worst_s in candidates.of(row, burden):
            if leaving[topic] == "" and (receiver == source or not candidates.is_better(row, worst_s)):
                stayed += 1  # and those that come after are worse still
                break
            if leaving[topic] == "" and not candidates.is_likely(row, receiver, worst_s):
                continue
            if worst_s > max(places.bound_s[topic], candidates.now_s[row]):
                break  # nobody's promise is broken to relieve a broker
            if receiver == source:
                continue
            if not burden.fits(topic, receiver):
                full.append(receiver)
                continue
            burden.moved(topic, receiver)
            forecast = candidates.forecast(row, receiver, worst_s, full)
            steps[topic] = _step(snapshot, topic, receiver, forecast, leaving[topic])
            break
    return steps, stayed


class _Candidates:
    """The brokers that topics may go to, best first; and `feasible`, how many each may go to: those that keep its
    promise.

    With none that does, all are candidates (section 3.4.1) whose place is known. Of each topic only the best few are
    kept, and the others are found again for the few topics that come to need them.
    """

    def __init__(self, snapshot: Snapshot, topics: Ints, predict: Prediction) -> None:
        assert snapshot.places is not None
        self._places = snapshot.places
        self._names = snapshot.brokers
        self._known = self._places.promised
        self._usable = np.flatnonzero(snapshot.usable)
        self._topics = topics
        self._predict = predict
        few = min(_FEW, len(self._usable))
        self._best = np.empty((len(topics), few), dtype=np.int64)
        self._worst_s = np.empty((len(topics), few))
        self.feasible: Ints = np.empty(len(topics), dtype=np.int64)
        self._keeps: Ints = np.empty(len(topics), dtype=np.int64)
        self.now_s: Floats = np.empty(len(topics))  # what is predicted for where a topic is: like is compared with like
        self._same_s = predict.same_s(self._places, topics)
        self._bound_s = self._places.bound_s[topics]
        broker = snapshot.members[snapshot.first[:-1]][topics]
        self._likely_s = predict.likely_s(self._places, topics, broker)
        for start in range(0, len(topics), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            worst_s = predict.worst_s(self._places, topics[part])
            self.now_s[part] = worst_s[np.arange(len(worst_s)), broker[part]]
            worst_s = worst_s[:, self._usable]
            keeps = (worst_s <= self._places.bound_s[topics[part]][:, None]).sum(axis=1)
            self._keeps[part] = keeps
            self.feasible[part] = np.where(keeps, keeps, np.isfinite(worst_s).sum(axis=1))
            best = np.argpartition(worst_s, few - 1, axis=1)[:, :few]
            values = np.take_along_axis(worst_s, best, axis=1)
            order = np.lexsort((best, values), axis=1)
            self._best[part] = np.take_along_axis(best, order, axis=1)
            self._worst_s[part] = np.take_along_axis(values, order, axis=1)

    def is_better(self, row: int, worst_s: float) -> bool:
        """By enough to move for it. For a broken promise only: then whatever keeps it is better than what is now."""
        same_s = float(self._same_s[row])
        by_a_twentieth = worst_s - same_s <= _BETTER * (float(self.now_s[row]) - same_s)
        return by_a_twentieth or worst_s <= min(_KEPT * float(self._bound_s[row]), float(self.now_s[row]))

    def is_likely(self, row: int, receiver: int, worst_s: float) -> bool:
        """Whether a broker that nobody measured is better by what is predicted of the present one, too.

        Where predictions are too low, a topic would go to and fro between what is known and what is not.
        """
        return worst_s <= self._likely_s[row] or self._places.is_measured(int(self._topics[row]), receiver)

    def of(self, row: int, burden: Burden) -> Iterator[tuple[int, float]]:
        """(broker, worst case there). Beyond the best few, only those that it would fit."""
        count, few = int(self.feasible[row]), self._best.shape[1]
        best, worst_s = self._best[row], self._worst_s[row]
        for at in range(min(count, few)):
            yield int(self._usable[best[at]]), float(worst_s[at])
        fitting = burden.fitting(int(self._topics[row]))[self._usable] if count > few else np.zeros(0, dtype=np.bool_)
        if fitting.any():
            all_s = self._predict.worst_s(self._places, self._topics[row : row + 1])[0, self._usable]
            order = np.argsort(all_s, kind="stable")[few:count]
            for at in order[fitting[order]].tolist():
                yield int(self._usable[at]), float(all_s[at])

    def forecast(self, row: int, receiver: int, worst_s: float, full: list[int]) -> Forecast:
        """For a topic that goes to `receiver`, the brokers in `full` being too full for it."""
        places, topic = self._places, int(self._topics[row])
        known = bool(self._known[topic])
        best, bests_s = self._usable[self._best[row, :_SHOWN]].tolist(), self._worst_s[row, :_SHOWN].tolist()
        shown = [
            Candidate(self._names[at], _ms(each_s), at in full)
            for at, each_s in zip(best, bests_s, strict=True)
            if each_s < np.inf
        ]
        if receiver not in best:
            shown.append(Candidate(self._names[receiver], _ms(worst_s)))
        bound_s = float(places.bound_s[topic])
        return Forecast(
            _ms(float(places.worst_s[topic])) if known else None,
            _ms(bound_s) if bound_s < np.inf else None,
            _ms(worst_s) if worst_s < np.inf else None,
            tuple(shown),
            int(self._keeps[row]),
            len(self._usable),
        )


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 3)


def _step(snapshot: Snapshot, topic: int, receiver: int, forecast: Forecast, why: str) -> Step:
    name = snapshot.brokers[receiver]
    bound_ms, predicted_ms = forecast.bound_ms, forecast.predicted_ms
    if not why:
        why = f"its worst case is {forecast.worst_ms:.1f} ms, and {bound_ms:.1f} ms are promised"
    there = "" if predicted_ms is None else f"; at {name} it is {predicted_ms:.1f} ms"
    broken = bound_ms is not None and predicted_ms is not None and predicted_ms > bound_ms
    kept = ", which breaks the promise too; no other is better" if broken else ""
    was = snapshot.strategy_of(topic), snapshot.brokers_of(topic)
    return Step(snapshot.topics[topic], Strategy.SINGLE, (name,), *was, f"{why}{there}{kept}", forecast)
