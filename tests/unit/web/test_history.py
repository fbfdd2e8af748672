"""Latencies over time, kept in arrays of a fixed length."""

import numpy as np

from nearcast.web.history import History
from nearcast.wire.promises import PromiseStanding


def standing(topic: str, measured_ms: float | None = None, worst_ms: float | None = None) -> PromiseStanding:
    return PromiseStanding(topic, "p95:40ms", worst_ms, measured_ms)


def test_a_topic_has_what_was_seen_of_it_from_when_it_was_first_seen() -> None:
    history = History()
    history.add(1.0, {"a": standing("a", 10.0, 12.0)})
    history.add(2.0, {"a": standing("a", None, 13.0), "b": standing("b", 7.0)})
    at_s, measured, worst = history.of("b")
    assert (at_s.tolist(), measured.tolist(), np.isnan(worst).tolist()) == ([2.0], [7.0], [True])
    at_s, measured, worst = history.of("a")
    assert (at_s.tolist(), worst.tolist()) == ([1.0, 2.0], [12.0, 13.0])
    assert measured[0] == 10.0
    assert np.isnan(measured[1])


def test_the_oldest_looks_are_forgotten_and_the_order_stays() -> None:
    history = History(looks=4)
    for look in range(11):
        history.add(float(look), {"a": standing("a", float(look))})
    at_s, measured, _ = history.of("a")
    assert at_s.tolist() == measured.tolist() == [7.0, 8.0, 9.0, 10.0]


def test_many_topics_come_to_be_known_after_the_first() -> None:
    history = History()
    history.add(1.0, {"t0": standing("t0", 1.0)})
    history.add(2.0, {f"t{each}": standing(f"t{each}", float(each)) for each in range(1000)})
    assert history.of("t0")[1].tolist() == [1.0, 0.0]
    assert history.of("t999")[1].tolist() == [999.0]
    assert not len(history.of("nobody")[0])
