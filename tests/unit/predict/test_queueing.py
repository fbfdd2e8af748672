import numpy as np
import pytest

from nearcast.predict.queueing import Processors, served_hz, waiting_ms


def row(*values: float) -> np.ndarray:
    return np.array([values])


def test_topics_that_can_all_be_served_are_served_as_often_as_they_are_published() -> None:
    assert served_hz(row(10, 20), row(30, 30), Processors(1)).tolist() == [[30.0, 30.0]]


def test_topics_that_wait_are_served_in_turns_and_a_slow_one_is_not_held_up_by_them() -> None:
    found = served_hz(row(10, 10, 10), row(10, 80, 200), Processors(1))
    assert found[0] == pytest.approx([10.0, 45.0, 45.0])


def test_what_is_served_fills_the_cores_and_no_more() -> None:
    rng = np.random.default_rng(5)
    interval_ms, rate_hz = rng.uniform(5, 50, (200, 6)), rng.uniform(1, 60, (200, 6))
    for cores in (1, 2):
        processors = Processors(cores, overhead_ms=0.5)
        served = served_hz(interval_ms, rate_hz, processors)
        used = np.sum(served * (interval_ms + 0.5) / 1e3, axis=1)
        assert np.all(served <= rate_hz + 1e-9)
        assert np.all(used <= cores + 1e-9)
        waiting = np.any(served < np.minimum(rate_hz, 1e3 / (interval_ms + 0.5)) - 1e-9, axis=1)
        assert used[waiting] == pytest.approx(np.full(int(waiting.sum()), cores))


def test_a_topic_alone_and_seldom_takes_its_interval_and_the_way() -> None:
    assert waiting_ms(row(20), row(1), Processors(1, delay_ms=3.0))[0, 0] == pytest.approx(23.0, abs=2.0)


def test_a_topic_that_falls_behind_is_as_late_as_load_has_lasted() -> None:
    short, long = (waiting_ms(row(20), row(100), Processors(1, lasting_s=each))[0, 0] for each in (10.0, 100.0))
    assert long == pytest.approx(10 * short, rel=0.05)
    # Message 0.9 * 100 * 100 is done after 9,000 * 20 ms, and was published after 90 s.
    assert long == pytest.approx(9_000 * 20.0 - 90_000.0, rel=0.01)


def test_no_topic_is_quicker_for_another_one_beside_it() -> None:
    rng = np.random.default_rng(6)
    interval_ms, rate_hz = rng.uniform(5, 50, (300, 4)), rng.uniform(1, 40, (300, 4))
    processors = Processors(1, lasting_s=30.0)
    fewer = waiting_ms(interval_ms[:, :3], rate_hz[:, :3], processors)
    more = waiting_ms(interval_ms, rate_hz, processors)[:, :3]
    assert np.mean(more >= 0.99 * fewer) > 0.97  # it is an estimate: where it changes its formula it may jump
