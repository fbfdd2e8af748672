"""What an agent makes of where its clients are: the paper's arithmetic, whatever their number."""

import random
from dataclasses import replace

import numpy as np
import pytest

from nearcast.agent.analyzer import Users
from nearcast.agent.monitor import KEPT_S, WINDOW_S, Monitor, differs
from nearcast.control.whereabouts import spot_of
from nearcast.coords.coordinate import HEIGHT_MIN_S, Coordinate
from nearcast.domain.places import Clients, Spots, gathered
from nearcast.domain.sketch import bucket_of, flat
from nearcast.domain.whereabouts import Spot, TopicPlace
from nearcast.wire.loads import Counts, TopicCount
from nearcast.wire.places import Located, Position

HERE = spot_of(Coordinate())
Rtts = tuple[tuple[str, float], ...]


def located(client: str, x_s: float = 0.0, *, rtt_s: float | None = None, **clock: float | str | Rtts) -> Located:
    at = Position((x_s, *(0.0,) * 7), HEIGHT_MIN_S, 0.0, 0.5)
    return Located(client, at, rtt_s, **clock)  # type: ignore[arg-type]


def users(*, publish: tuple[str, ...] = (), subscribe: tuple[str, ...] = ()) -> dict[str, Users]:
    return {"t": Users(frozenset(subscribe), frozenset(publish))}


def test_middles_deviation_and_worst_case_are_those_of_every_single_client() -> None:
    rng = random.Random(7)
    names = [f"c{number}" for number in range(40)]
    positions = [Position(tuple(rng.gauss(0, 0.05) for _ in range(8)), rng.uniform(0.0, 0.02), 0.0, 0.3) for _ in names]
    here = spot_of(Coordinate(tuple(rng.gauss(0, 0.05) for _ in range(8)), 0.003))
    monitor = Monitor()
    for name, at in zip(names, positions, strict=True):
        monitor.located(Located(name, at), here, 0.0)
    (found,) = monitor.topics(here, users(publish=tuple(names[:25]), subscribe=tuple(names[15:])), 1.0)

    publishes = np.arange(40) < 25
    subscribes = np.arange(40) >= 15
    spots = [spot_of(Coordinate(at.vec, at.height)) for at in positions]
    there = Spots(np.array([each.vec for each in spots]), np.array([each.height for each in spots]))
    brokers = Spots(np.array([here.vec]), np.array([here.height]))
    oracle = gathered(
        Clients(np.zeros(40, dtype=np.int64), there, publishes, subscribes),
        brokers,
        np.zeros(1, dtype=np.int64),
        np.array([0.04]),
    )
    assert found.publishers is not None
    assert found.subscribers is not None
    assert found.publishers.vec == pytest.approx(oracle.publishers.vec[0])
    assert found.subscribers.height == pytest.approx(oracle.subscribers.height[0])
    assert found.deviation_s == pytest.approx(oracle.deviation_s[0])
    assert found.worst_s == pytest.approx(oracle.worst_s[0])


def test_a_measured_round_trip_is_preferred_to_a_predicted_one() -> None:
    monitor = Monitor()
    monitor.located(located("a", 0.050, rtt_s=0.003), HERE, 0.0)
    monitor.located(located("b", 0.020), HERE, 0.0)
    (found,) = monitor.topics(HERE, users(publish=("a",), subscribe=("b",)), 1.0)
    assert found.worst_s == pytest.approx(0.003 + 0.020 + 2 * HEIGHT_MIN_S)


def test_who_has_not_said_where_it_is_does_not_count_and_who_is_silent_is_forgotten() -> None:
    monitor = Monitor()
    monitor.located(located("a", 0.01), HERE, 0.0)
    (found,) = monitor.topics(HERE, users(publish=("a",), subscribe=("b",)), 1.0)
    assert found.subscribers is None
    assert monitor.topics(HERE, users(publish=("a",), subscribe=("b",)), KEPT_S) == []


def test_only_a_client_that_moved_by_much_is_news() -> None:
    monitor = Monitor()
    assert monitor.located(located("a", 0.010), HERE, 0.0)
    assert not monitor.located(located("a", 0.0105), HERE, 1.0)
    assert monitor.located(located("a", 0.030), HERE, 2.0)
    assert monitor.located(located("a", -0.030), HERE, 3.0), "as far away as before, on the other side"
    assert not monitor.located(located("a", float("nan")), HERE, 4.0), "and what cannot be is not taken"


def test_latencies_are_merged_over_clients_and_a_window() -> None:
    monitor = Monitor()
    for second in range(20):
        for client, took_s in (("a", 0.010), ("b", 0.030)):
            sketch = flat({bucket_of(took_s + second / 1000): 10})
            monitor.counted(Counts(client, 1.0, (TopicCount("t", 0, 0, 10, 0, sketch),)), float(second))
    (found,) = monitor.topics(HERE, users(subscribe=("a", "b")), 20.0)
    latencies = found.latencies
    assert latencies is not None
    assert latencies.samples == 2 * 10 * WINDOW_S
    assert latencies.p50_s == pytest.approx(0.029, rel=0.1)
    assert latencies.p99_s == pytest.approx(0.049, rel=0.04)
    assert monitor.topics(HERE, users(subscribe=("a", "b")), 40.0) == []


def test_clients_with_the_time_of_one_agent_share_its_error() -> None:
    monitor = Monitor()
    monitor.counted(Counts("b", 1.0, (TopicCount("t", 0, 0, 1, 0, (10, 1)),)), 0.0)
    shared = {"clock_uncertainty_s": 0.041, "clock_near_s": 0.001}
    monitor.located(located("a", clock_via="b1", **shared), HERE, 0.0)
    for via, uncertainty_s in (("b1", 0.002), ("b2", 0.082)):
        monitor.located(located("b", clock_via=via, **shared), HERE, 0.0)
        (found,) = monitor.topics(HERE, users(publish=("a",), subscribe=("b",)), 1.0)
        assert found.latencies is not None
        assert found.latencies.uncertainty_s == pytest.approx(uncertainty_s)


def test_a_topic_is_news_when_its_clients_together_are_elsewhere() -> None:
    here, there = Spot((0.01, 0.0), 0.001), Spot((0.03, 0.0), 0.001)
    one = TopicPlace("t", here, here, 0.001, 0.02)
    assert not differs(one, one)
    assert not differs(replace(one, worst_s=0.0215), one), "less than a tenth, or 2 ms"
    assert differs(replace(one, worst_s=0.03), one)
    assert differs(replace(one, deviation_s=0.01), one)
    assert differs(replace(one, subscribers=there), one), "as far away as before, on another side"
    assert differs(replace(one, publishers=None), one)
    assert differs(replace(one, elsewhere=(("b", 0.01),)), one), "and when they have measured other brokers"


def elsewhere(others: dict[str, Rtts], *, rtt_s: float | None = 0.004) -> Rtts:
    """Of a topic that "p" publishes to "q" and "r", who have measured these."""
    monitor = Monitor()
    for client, rtts_s in others.items():
        monitor.located(located(client, 0.05, rtt_s=rtt_s, rtts_s=rtts_s), HERE, 0.0)
    (found,) = monitor.topics(HERE, users(publish=("p",), subscribe=("q", "r")), 1.0)
    return found.elsewhere


def test_the_worst_case_elsewhere_is_told_of_brokers_that_every_client_has_measured() -> None:
    far = (("b", 0.030), ("c", 0.010))
    found = elsewhere({"p": (("b", 0.001), ("c", 0.040)), "q": (("c", 0.002), ("b", 0.003)), "r": far})
    assert dict(found) == {"b": pytest.approx(0.031), "c": pytest.approx(0.050)}
    assert dict(elsewhere({"p": far, "q": far, "r": (("c", 0.010),)})) == {"c": pytest.approx(0.020)}
    assert elsewhere({"p": far, "q": far, "r": ()}) == ()
    assert elsewhere({"q": far, "r": far}) == (), "of a topic that nobody publishes there is none"
    assert elsewhere({"p": far, "q": far, "r": far}, rtt_s=None) == (), "nor without this broker to compare with"


def test_no_more_than_the_eight_nearest_brokers_are_told_of_a_topic() -> None:
    rtts_s = tuple((f"b{number:02}", 0.020 - 0.001 * (number // 2)) for number in range(16))
    found = elsewhere(dict.fromkeys("pqr", rtts_s))
    assert [broker for broker, _ in found] == ["b14", "b15", "b12", "b13", "b10", "b11", "b08", "b09"]


def test_a_client_that_begins_to_measure_other_brokers_is_news() -> None:
    monitor = Monitor()
    monitor.located(located("a", rtt_s=0.001), HERE, 0.0)
    assert monitor.located(located("a", rtt_s=0.001, rtts_s=(("b", 0.01),)), HERE, 1.0)
    assert not monitor.located(located("a", rtt_s=0.001, rtts_s=(("b", 0.01), ("c", 0.02))), HERE, 2.0)
