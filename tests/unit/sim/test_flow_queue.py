import numpy as np
import pytest

from nearcast.sim.flow_queue import OutputBuffer, Queues, burst_wait_s

LINE = np.array([100.0, 100.0])
NEVER = OutputBuffer(hard_bytes=1e18, soft_bytes=1e18)


def test_what_fits_is_sent_at_once() -> None:
    queues = Queues(np.zeros((1, 2)), NEVER)
    passed = queues.step(np.array([[90.0, 0.0]]), np.ones((1, 2)), LINE, 1.0)
    assert passed.sent_bytes.tolist() == [[90.0, 0.0]]
    assert queues.backlog_bytes.sum() == 0.0


def test_a_backlog_grows_while_too_much_is_offered_and_drains_afterwards() -> None:
    queues = Queues(np.zeros((1, 2)), NEVER)
    seen = []
    for offered in (150.0, 150.0, 60.0, 60.0, 60.0):
        queues.step(np.array([[offered, 0.0]]), np.ones((1, 2)), LINE, 1.0)
        seen.append(queues.backlog_bytes[0, 0])
    assert seen == pytest.approx([50.0, 100.0, 60.0, 20.0, 0.0])


@pytest.mark.parametrize("seed", range(10))
def test_every_byte_offered_was_sent_waits_or_was_dropped(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queues = Queues(np.zeros((4, 2)), OutputBuffer(hard_bytes=60.0, soft_bytes=20.0, soft_s=3.0))
    offered = sent = dropped = 0.0
    for _ in range(200):
        more = rng.random((4, 2)) * 60.0
        passed = queues.step(more, rng.integers(0, 4, (4, 2)).astype(float), LINE, 1.0)
        assert passed.sent_bytes.sum(axis=0).max() <= 100.0 + 1e-9
        assert queues.backlog_bytes.min() >= 0.0
        offered, sent, dropped = (
            offered + more.sum(),
            sent + passed.sent_bytes.sum(),
            dropped + passed.dropped_bytes.sum(),
        )
    assert dropped > 0.0
    assert offered == pytest.approx(sent + dropped + queues.backlog_bytes.sum())


def test_a_subscriber_over_the_hard_limit_is_cut_off_at_once() -> None:
    queues = Queues(np.zeros((2, 2)), OutputBuffer(hard_bytes=50.0, soft_bytes=50.0))
    passed = queues.step(np.array([[900.0, 0.0], [90.0, 0.0]]), np.array([[10.0, 0.0], [10.0, 0.0]]), LINE, 1.0)
    assert passed.disconnected == 10.0
    assert queues.backlog_bytes[0, 0] == 0.0
    assert queues.backlog_bytes[1, 0] > 0.0


def test_a_subscriber_over_the_soft_limit_is_cut_off_when_it_stays_there() -> None:
    queues = Queues(np.zeros((1, 2)), OutputBuffer(hard_bytes=1e9, soft_bytes=30.0, soft_s=3.0))
    cut = [queues.step(np.array([[140.0, 0.0]]), np.ones((1, 2)), LINE, 1.0).disconnected for _ in range(4)]
    assert cut == [0.0, 0.0, 1.0, 0.0]


def test_bursts_wait_longer_the_busier_the_line_is() -> None:
    subscribers = np.array([[10.0, 10.0]])
    idle, busy = burst_wait_s(np.array([[0.0, 9.0]]), subscribers, 1.0, LINE)[0]
    assert idle == pytest.approx((10 + 1) / 100.0 / 2)
    assert busy == pytest.approx(idle + 9.0 * 0.1**2 / (2 * 0.1))


def test_the_wait_of_bursts_stays_finite_above_the_line() -> None:
    assert np.isfinite(burst_wait_s(np.array([[99.0, 0.0]]), np.full((1, 2), 10.0), 1.0, LINE)).all()
