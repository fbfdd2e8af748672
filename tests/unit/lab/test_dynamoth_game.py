import numpy as np
import pytest

from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.plan import Plan
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.snapshot import Snapshot
from nearcast.lab.experiments import dynamoth_game
from nearcast.lab.experiments.dynamoth_game import FLEET, SERVERS, Setting, Timeline, play, scaled
from nearcast.lab.experiments.dynamoth_published_hash import published_hashing
from nearcast.lab.experiments.dynamoth_scalability import row_of
from nearcast.lab.workloads.schedule import Schedule
from nearcast.policies.settings import Settings

SHORT = Schedule(((0.0, 120), (160.0, 440)))


def run_with(
    response_ms: list[float], *, rebalanced_s: tuple[float, ...] = (), rented_s: tuple[float, ...] = ()
) -> Timeline:
    """A run to which one player came every second, from 100 on."""
    count = len(response_ms)
    even = np.full(count, 0.5)
    return Timeline(
        at_s=np.arange(count, dtype=np.float64),
        players=np.arange(100.0, 100.0 + count),
        response_ms=np.array(response_ms),
        offered_hz=np.linspace(0.0, 90_000.0, count),
        messages_hz=even,
        servers=even,
        mean_ratio=even,
        busiest_ratio=np.where(np.arange(count) % 10 == 0, 1.1, 0.9),
        disconnected=0.0,
        rebalanced_s=rebalanced_s,
        rented_s=rented_s,
        released_s=(),
    )


def test_a_spike_that_is_mended_does_not_end_what_is_carried() -> None:
    assert run_with([50.0] * 40 + [400.0] * 10 + [50.0] * 50).carried == 199


def test_players_are_carried_until_the_response_stays_above_the_bound() -> None:
    # The mean of ten seconds passes 150 ms with the third late one.
    assert run_with([50.0] * 60 + [500.0] * 60).carried == 100 + 60 + 2


def test_overload_from_the_first_second_on_is_no_comparison() -> None:
    never = run_with([500.0] * 100)
    assert never.carried == 0
    assert row_of(7, run_with([50.0] * 50), never, never).ratio is None


def test_a_row_counts_rebalancings_that_came_without_a_new_server() -> None:
    ours = run_with([50.0] * 200, rebalanced_s=(10.0, 30.0, 90.0), rented_s=(30.0, 60.0))
    row = row_of(7, ours, run_with([50.0] * 50), run_with([50.0] * 50))
    assert row.reused == 1
    assert row.ratio == pytest.approx(299 / 149, abs=0.001)
    assert row.busiest_below_1 == pytest.approx(0.9, abs=0.01)
    assert row.saturated_players < row.most_players


def test_a_game_is_the_same_whenever_it_is_played() -> None:
    first, again = play(Setting("dynamoth", SHORT), 3), play(Setting("dynamoth", SHORT), 3)
    assert first.response_ms.tolist() == again.response_ms.tolist()
    assert first.rebalanced_s == again.rebalanced_s


def test_two_policies_are_given_the_same_game() -> None:
    ours, hashing = play(Setting("dynamoth", SHORT), 3), play(Setting("hash", SHORT), 3)
    assert ours.offered_hz.tolist() == hashing.offered_hz.tolist()


def test_it_is_the_registered_policy_that_relieves_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    served = play(Setting("dynamoth", SHORT), 1)
    monkeypatch.setitem(dynamoth_game._POLICIES, "dynamoth", lambda _snapshot, _settings, now_s: Plan("none", now_s))
    left_alone = play(Setting("dynamoth", SHORT), 1)
    assert served.response_ms.max() < 150.0
    assert left_alone.response_ms.max() > 1_000.0


def test_servers_of_twice_the_bandwidth_have_half_the_load_ratio() -> None:
    alone = Setting("dynamoth", Schedule(((0.0, 120), (5.0, 120))))
    once, twice = play(alone, 1), play(scaled(alone, 2.0), 1)
    assert once.mean_ratio[-1] == pytest.approx(2 * twice.mean_ratio[-1])


def loaded(topics_on: dict[str, int], out: float) -> Snapshot:
    routes, reports, number = {}, [], 0
    for broker, count in topics_on.items():
        loads = []
        for _ in range(count):
            routes[f"t{number:02}"] = Route(1, Strategy.SINGLE, (broker,))
            loads.append(TopicLoad(f"t{number:02}", 1.0, 1.0, 1.0, 1.0, 1, 1))
            number += 1
        reports.append(BrokerReport(broker, 0.0, out if count else 0.0, 100.0, tuple(loads)))
    return Snapshot.of(reports, routes, Ring(("a",)), at_s=0.0)


def test_published_hashing_hands_over_less_than_a_fair_share() -> None:
    plan = published_hashing(loaded({"a": 32, "b": 32, "c": 0}, out=90.0), Settings(max_brokers=8), 0.0)
    assert {step.brokers for step in plan.steps} == {("c",)}
    assert len(plan.steps) == 2 * round(32 / 6)


def test_published_hashing_rents_only_when_a_server_is_overloaded() -> None:
    settings = Settings(max_brokers=8)
    assert published_hashing(loaded({"a": 4}, out=90.0), settings, 0.0).rent == 1
    assert not published_hashing(loaded({"a": 4}, out=70.0), settings, 0.0).changes
    assert not published_hashing(loaded({"a": 4}, out=90.0), Settings(max_brokers=1), 0.0).changes


def test_eight_servers_are_full_near_the_players_of_the_paper() -> None:
    """The one thing that was taken from the paper's outcome: the scale."""
    run = play(Setting("hash", Schedule(((0.0, 1000), (120.0, 1000)))), 1)
    full_hz = len(SERVERS) * FLEET.capacity_bytes_per_s / FLEET.message_bytes
    assert run.offered_hz[-1] / full_hz == pytest.approx(1.0, abs=0.2)
