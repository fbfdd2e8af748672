"""Metrics are counted once each, and name no client."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from nearcast.agent.complaints import Complaints
from nearcast.domain.decision import Decision, Measured
from nearcast.domain.load import Handover
from nearcast.domain.plan import Forecast
from nearcast.domain.route import Strategy
from nearcast.domain.sketch import bucket_of, flat
from nearcast.web.metrics import ComplaintMetrics, HandoverMetrics, MoveMetrics, text_of
from nearcast.wire.loads import Trouble

MOVE = Decision(
    "1.1", "t", 100.0, "epulsar", 1, "too late", Strategy.SINGLE, ("b2",), Strategy.SINGLE, ("b1",),
    forecast=Forecast(44.0, 40.0, 14.0),
)  # fmt: skip


def test_a_decision_is_counted_when_it_comes_to_something_and_only_once() -> None:
    registry = CollectorRegistry()
    moves = MoveMetrics(registry, since_s=50.0)
    told = replace(MOVE, told_s=0.2)
    over = replace(told, done_s=3.0, after=Measured(95, 16.0, 100))
    for before, now in ((None, MOVE), (MOVE, told), (told, over), (over, over)):
        moves.decided(before, now)
    moves.decided(None, replace(MOVE, id="1.2", refused="no agent answers"))
    moves.decided(None, replace(over, id="0.9", at_s=10.0))
    value = registry.get_sample_value
    assert value("nearcast_moves_total", {"policy": "epulsar", "result": "done"}) == 1.0
    assert value("nearcast_moves_total", {"policy": "epulsar", "result": "refused"}) == 1.0
    assert value("nearcast_move_told_seconds_sum") == 0.2
    assert value("nearcast_move_done_seconds_count") == 1.0
    assert value("nearcast_prediction_error_seconds_sum") == 0.002


def test_what_an_agent_forwarded_is_read_when_it_is_asked_for() -> None:
    cost = Handover("", 7, 700, 3, None)
    registry = CollectorRegistry()
    registry.register(HandoverMetrics("b1", lambda: (cost, 2)))
    assert registry.get_sample_value("nearcast_forwarded_messages_total", {"broker": "b1"}) == 7.0
    cost = Handover("", 9, 900, 3, 1.5)
    assert registry.get_sample_value("nearcast_forwarded_messages_total", {"broker": "b1"}) == 9.0
    assert registry.get_sample_value("nearcast_emptied_seconds", {"broker": "b1"}) == 1.5
    names = [line.split()[2] for line in text_of(registry).decode().splitlines() if line.startswith("# TYPE")]
    assert all(name.startswith("nearcast_") for name in names)


def test_what_subscribers_missed_is_summed_and_their_pauses_are_a_histogram() -> None:
    complaints, registry = Complaints(), CollectorRegistry()
    registry.register(ComplaintMetrics("b1", complaints))
    complaints.heard(Trouble(2, 7, 1, flat({0: 3, bucket_of(0.2): 1})))
    complaints.heard(Trouble(1, 0, 0, flat({bucket_of(30.0): 1})))
    value, at = registry.get_sample_value, {"broker": "b1"}
    assert (value("nearcast_gaps_total", at), value("nearcast_gap_messages_total", at)) == (3.0, 7.0)
    assert value("nearcast_discontinuities_total", at) == 1.0
    found = [value("nearcast_downtime_seconds_bucket", {**at, "le": le}) for le in ("0.001", "0.1", "0.25", "+Inf")]
    assert found == [3.0, 3.0, 4.0, 5.0]
    assert value("nearcast_downtime_seconds_count", at) == 5.0
