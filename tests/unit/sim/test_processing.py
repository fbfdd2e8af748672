import numpy as np
import pytest

from nearcast.predict.queueing import Processors
from nearcast.sim.processing import Configuration, published_s, simulated_ms


def plain(intervals_ms: list[float], sent: list[np.ndarray], cores: int) -> list[list[float]]:
    """When each message is done, one event at a time: the oracle."""
    core_s, topic_s, turn = [0.0] * cores, [0.0] * len(sent), 0
    queues = [list(each) for each in sent]
    done: list[list[float]] = [[] for _ in sent]
    while any(queues):
        free_s = min(core_s)
        ready = {at: max(queue[0], topic_s[at]) for at, queue in enumerate(queues) if queue}
        begin_s = max(free_s, min(ready.values()))
        order = [(turn + 1 + step) % len(sent) for step in range(len(sent))]
        topic = next(at for at in order if at in ready and ready[at] <= begin_s)
        queues[topic].pop(0)
        end_s = begin_s + intervals_ms[topic] / 1e3
        core_s[core_s.index(free_s)] = topic_s[topic] = end_s
        done[topic].append(end_s)
        turn = topic
    return done


@pytest.mark.parametrize("cores", [1, 2])
def test_many_configurations_at_once_are_served_as_each_would_be_alone(cores: int) -> None:
    rng = np.random.default_rng(cores)
    processors = Processors(cores, lasting_s=4.0, delay_ms=0.0)
    many = [
        Configuration(
            tuple(rng.choice([10.0, 20.0, 40.0], size).tolist()),
            tuple(rng.integers(1, 60, size).astype(float).tolist()),
        )
        for size in (1, 2, 3, 5)
    ]
    found = simulated_ms(many, processors, warm_up_s=0.0, seed=3)
    again = np.random.default_rng(3)
    for each, latencies in zip(many, found, strict=True):
        sent = [published_s(rate, 1.0, 4.0, again) for rate in each.rate_hz]
        done = plain(list(each.interval_ms), sent, cores)
        for expected, published, got in zip(done, sent, latencies, strict=True):
            assert got == pytest.approx((np.array(expected) - published) * 1e3)


def test_every_publisher_sends_once_in_each_of_its_periods() -> None:
    at_s = published_s(5.0, 1.0, 10.0, np.random.default_rng(1))
    assert np.bincount(at_s.astype(int)).tolist() == [5] * 10
    assert np.all(np.diff(at_s) > 0.0)


def test_a_slow_topic_is_not_held_up_by_one_that_falls_behind() -> None:
    found = simulated_ms(
        [Configuration((10.0, 10.0), (300.0, 2.0))], Processors(1, lasting_s=20.0), warm_up_s=0.0, seed=1
    )
    busy, slow = (float(np.percentile(each, 90)) for each in found[0])
    assert busy > 10_000.0
    assert slow < 40.0


def test_what_is_no_configuration_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 0"):
        Configuration((10.0,), (0.0,))
    with pytest.raises(ValueError, match="intervals"):
        Configuration((10.0,), (1.0, 2.0))
