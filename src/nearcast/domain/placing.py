"""From what agents report to what a policy for promises sees.

Agents tell round trips. A promise is about one way, from a publisher over the broker to a subscriber: half of each
round trip counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nearcast.domain.places import Floats, Measured, Places, Spots
from nearcast.domain.plan import Candidate
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.whereabouts import BrokerPlace, Spot, TopicPlace

_ONE_WAY = 0.5
_NOBODY = TopicPlace("", worst_s=math.nan)


def places_of(seen: Snapshot, told: Iterable[BrokerPlace], promises: Mapping[str, Slo]) -> Places | None:
    """Of the snapshot's brokers and topics; None when no broker has said where it is.

    A broker that has not said is nowhere. While a topic moves its clients are at several brokers, and each side is
    taken from the first that knows it, the topic's own before others; its worst case is then the predicted one, there
    and elsewhere.
    """
    by_name = {each.broker: each for each in told}
    if not by_name:
        return None
    dimensions = len(min(by_name.items())[1].at.vec)
    brokers = _spots([by_name[name].at if name in by_name else None for name in seen.brokers], dimensions)
    owners = seen.members[seen.first[:-1]]
    at = _by_topic(by_name)
    merged = [
        _merged(at.get(topic, ()), seen.brokers_of(number) if topic in at else ())
        for number, topic in enumerate(seen.topics)
    ]
    publishers = _spots([each.publishers for each in merged], dimensions)
    subscribers = _spots([each.subscribers for each in merged], dimensions)
    bounds = (promises.get(topic) for topic in seen.topics)
    index = {name: number for number, name in enumerate(seen.brokers) if np.isfinite(brokers.height[number])}
    found = Places(
        brokers,
        publishers,
        subscribers,
        np.array([each.deviation_s for each in merged]) * _ONE_WAY,
        np.array([each.worst_s for each in merged]) * _ONE_WAY,
        np.array([math.inf if slo is None else slo.bound_ms / 1e3 for slo in bounds]),
        measured=Measured.among(
            [
                [(index[name], worst_s * _ONE_WAY) for name, worst_s in _measured(at.get(topic, ())) if name in index]
                for topic in seen.topics
            ]
        ),
    )
    unknown = np.flatnonzero(np.isnan(found.worst_s))
    found.worst_s[unknown] = np.nan_to_num(found.expected_s(unknown, owners[unknown]))
    return found


def candidates_for(
    topic: Sequence[tuple[str, TopicPlace]], told: Iterable[BrokerPlace], most: int
) -> tuple[Candidate, ...]:
    """The best brokers for one topic, as the policy sees them: what is told of a move that no policy for promises made.

    `topic`: what is said of it, and the broker at which its clients are.
    """
    at = _merged(topic, [broker for broker, _ in topic])
    measured = dict(_measured(topic))
    if at.publishers is None or at.subscribers is None:
        return ()
    found = [
        (
            measured[each.broker]
            if each.broker in measured
            else _apart(at.publishers, each.at) + _apart(at.subscribers, each.at) + at.deviation_s,
            each.broker,
        )
        for each in told
        if len(each.at.vec) == len(at.publishers.vec) == len(at.subscribers.vec)
    ]
    return tuple(Candidate(broker, round(1e3 * _ONE_WAY * worst_s, 3)) for worst_s, broker in sorted(found)[:most])


def _by_topic(told: Mapping[str, BrokerPlace]) -> dict[str, list[tuple[str, TopicPlace]]]:
    found: dict[str, list[tuple[str, TopicPlace]]] = {}
    for name, each in sorted(told.items()):
        for place in each.topics:
            found.setdefault(place.topic, []).append((name, place))
    return found


def _merged(told: Sequence[tuple[str, TopicPlace]], own: Sequence[str]) -> TopicPlace:
    """`own`: the brokers that the topic is on. The worst case is NaN where none of them knows both sides."""
    if not told:
        return _NOBODY
    if len(told) == 1 and told[0][0] in own and told[0][1].publishers and told[0][1].subscribers:
        return told[0][1]  # as nearly all are
    first = sorted(told, key=lambda each: each[0] not in own)
    known = [place for name, place in first if name in own and place.publishers and place.subscribers]
    return TopicPlace(
        "",
        next((place.publishers for _, place in first if place.publishers is not None), None),
        next((place.subscribers for _, place in first if place.subscribers is not None), None),
        max((place.deviation_s for _, place in told), default=0.0),
        max((place.worst_s for place in known), default=math.nan),
    )


def _measured(told: Sequence[tuple[str, TopicPlace]]) -> Iterable[tuple[str, float]]:
    """Worst cases as round trips; none while each of several brokers knows a part of the clients only.

    Which is so for as long as a topic's clients go from one to the other. A broker that all have left still tells for
    seconds how long messages took there.
    """
    there = [(name, place) for name, place in told if place.publishers or place.subscribers]
    if len(there) != 1 or not there[0][1].elsewhere:
        return ()
    (name, place) = there[0]
    return {**dict(place.elsewhere), name: place.worst_s}.items()


def _spots(told: Sequence[Spot | None], dimensions: int) -> Spots:
    """NaN for nobody, and for one that is in a space of other dimensions."""
    nowhere = (math.nan,) * (dimensions + 1)
    rows = [nowhere if each is None or len(each.vec) != dimensions else (*each.vec, each.height) for each in told]
    values: Floats = np.array(rows, dtype=np.float64).reshape(len(rows), dimensions + 1) * _ONE_WAY
    return Spots(values[:, :-1], values[:, -1])


def _apart(one: Spot, other: Spot) -> float:
    return math.dist(one.vec, other.vec) + one.height + other.height
