import numpy as np
import pytest

from nearcast.domain.route import Route, Strategy, route
from nearcast.sim.flow import FlowModel, FlowSettings
from nearcast.sim.flow_load import Crowd
from nearcast.sim.flow_queue import OutputBuffer

# Ten players on one topic publish 3 messages of 100 bytes a second: 10 * 3 * 10 * 100 = 30,000 bytes/s.
SETTINGS = FlowSettings(message_bytes=100.0, capacity_bytes_per_s=40_000.0)
ON_A, ON_B = {"t": Route(1, Strategy.SINGLE, ("a",))}, {"t": Route(2, Strategy.SINGLE, ("b",))}


def players(count: int, rtt_ms: float = 50.0) -> Crowd:
    return Crowd(
        np.zeros(count, dtype=np.intp),
        np.arange(count),
        np.full(count, 3.0),
        np.ones(count, dtype=np.bool_),
        np.full(count, rtt_ms),
    )


def model_of(settings: FlowSettings = SETTINGS) -> FlowModel:
    model = FlowModel(("t",), ("a", "b"), settings)
    model.reroute(ON_A, 0.0)
    return model


def test_a_broker_within_its_capacity_adds_little_to_the_round_trip() -> None:
    tick = model_of().step(players(10), 0.0)
    assert tick.sent_bytes.tolist() == [[30_000.0, 0.0]]
    burst_s = 10 * 100 / 46_000
    before_s = 30 * burst_s**2 / (2 * (1 - 30 * burst_s))
    assert tick.response_ms == pytest.approx(50.0 + 1000 * (before_s + (burst_s + 100 / 46_000) / 2))


def test_a_broker_above_its_line_makes_everybody_wait_longer_every_second() -> None:
    model = model_of()
    responses = [model.step(players(14), float(now)).response_ms for now in range(5)]
    # 14 * 3 * 14 * 100 = 58,800 bytes/s, of which the line takes 46,000: 0.28 s more of backlog each second.
    assert np.diff(responses) == pytest.approx(1000 * 12_800 / 46_000)


def test_what_was_late_is_made_up_for_when_players_leave() -> None:
    model = model_of()
    for now in range(5):
        model.step(players(14), float(now))
    late = [model.step(players(2), float(now)).response_ms for now in range(5, 12)]
    assert late[0] > 500.0
    assert late[-1] < 60.0
    assert model.queues.backlog_bytes.sum() == 0.0


def test_published_times_subscribers_is_delivered_waiting_or_dropped() -> None:
    model = model_of(FlowSettings(100.0, 40_000.0, buffer=OutputBuffer(hard_bytes=4_000.0)))
    published = delivered = dropped = disconnected = 0.0
    for now, count in enumerate([5, 14, 20, 20, 20, 9, 3, 3]):
        tick = model.step(players(count), float(now))
        published += count * 3 * count * 100
        delivered += tick.sent_bytes.sum()
        dropped += tick.dropped_bytes.sum()
        disconnected += tick.disconnected
    assert dropped > 0.0
    assert disconnected > 0.0
    assert published == pytest.approx(delivered + dropped + model.queues.backlog_bytes.sum())


def test_a_moved_topic_is_carried_twice_while_its_subscribers_linger() -> None:
    model = model_of()
    model.step(players(10), 0.0)
    model.reroute(ON_B, 1.0)
    lingering, after = model.step(players(10), 1.0), model.step(players(10), 2.0)
    assert lingering.sent_bytes.tolist() == [[30_000.0, 30_000.0]]
    assert lingering.twice_bytes == 30_000.0
    assert after.sent_bytes.tolist() == [[0.0, 30_000.0]]
    assert after.twice_bytes == 0.0


def test_a_topic_that_gets_one_more_broker_is_carried_once() -> None:
    model = model_of()
    model.step(players(10), 0.0)
    model.reroute({"t": route(2, Strategy.ALL_SUBSCRIBERS, ("a", "b"))}, 1.0)
    tick = model.step(players(10), 1.0)
    assert tick.sent_bytes.tolist() == [[15_000.0, 15_000.0]]
    assert tick.twice_bytes == 0.0


@pytest.mark.parametrize("strategy", [Strategy.ALL_SUBSCRIBERS, Strategy.ALL_PUBLISHERS])
def test_two_brokers_carry_what_one_cannot(strategy: Strategy) -> None:
    alone, together = model_of(), model_of()
    together.reroute({"t": route(2, strategy, ("a", "b"))}, 0.0)
    assert [alone.step(players(14), float(now)) for now in range(20)][-1].response_ms > 1_000.0
    assert [together.step(players(14), float(now)) for now in range(20)][-1].response_ms < 100.0


def test_nobody_there_is_no_response() -> None:
    assert np.isnan(model_of().step(players(0), 0.0).response_ms)
