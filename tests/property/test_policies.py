"""Every registered policy, on fleets of any shape; and what `dynamoth` promises beyond that."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from nearcast.control.verify import objections
from nearcast.domain.plan import Plan
from nearcast.domain.ring import Ring
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import STRATEGIES
from nearcast.domain.snapshot_json import read_snapshot, write_snapshot
from nearcast.policies import area_homes
from nearcast.policies.dynamoth import dynamoth
from nearcast.policies.dynamoth_replication import Bounds, replicas, replicas_plain
from nearcast.policies.epulsar import ALL_PAIRS, epulsar
from nearcast.policies.ktcp import EXACT, FFD, HYBRID, LFS
from nearcast.policies.registry import POLICIES
from nearcast.policies.settings import Allocation, Replication, Settings
from tests.property.policy_fleets import Fleet, all_settings, fleets, placed

NOW_S = 100.0
SLACK = 1e-9
# The exact solver of homes takes a tenth of a second a time; it has a test of its own below, with fewer examples.
QUICK = sorted({*POLICIES} - {area_homes.EXACT})
every_policy = pytest.mark.parametrize("name", QUICK)


@every_policy
@given(fleet=fleets(), settings=all_settings())
def test_a_plan_names_only_brokers_that_may_be_used_and_each_topic_once(
    name: str, fleet: Fleet, settings: Settings
) -> None:
    plan = POLICIES[name](placed(fleet.snapshot()), settings, NOW_S)
    assert plan.policy == name
    assert all(set(step.brokers) <= fleet.usable for step in plan.steps)
    assert len({step.topic for step in plan.steps}) == len(plan.steps)
    for step in plan.steps:
        was = fleet.route_of(step.topic)
        assert (step.was_strategy, step.was_brokers) == (was.strategy, was.brokers)


@every_policy
@given(fleet=fleets(), settings=all_settings(), seed=st.integers(0, 1000))
def test_equal_facts_give_equal_plans_in_whatever_order_they_come(
    name: str, fleet: Fleet, settings: Settings, seed: int
) -> None:
    plan = POLICIES[name](placed(fleet.snapshot()), settings, NOW_S)
    assert POLICIES[name](placed(fleet.snapshot(shuffled=seed)), settings, NOW_S) == plan
    assert POLICIES[name](placed(read_snapshot(write_snapshot(fleet.snapshot()))), settings, NOW_S) == plan


@pytest.mark.parametrize("name", sorted({*QUICK} - {ALL_PAIRS}))
@given(fleet=fleets(), settings=all_settings(), held=st.booleans())
def test_a_plan_is_the_same_from_the_snapshots_file(name: str, fleet: Fleet, settings: Settings, held: bool) -> None:
    seen = placed(fleet.snapshot())
    if held:
        seen = replace(seen, held=np.arange(len(seen.topics)) % 2 == 0, relieved=np.arange(len(seen.brokers)) % 2 == 0)
    plan = POLICIES[name](seen, settings, NOW_S)
    assert POLICIES[name](read_snapshot(write_snapshot(seen)), settings, NOW_S) == plan


@pytest.mark.parametrize("name", [FFD, LFS, HYBRID, EXACT])
@given(fleet=fleets(), settings=all_settings(), held=st.booleans())
def test_placement_of_what_is_processed_makes_no_plan_that_would_be_refused(
    name: str, fleet: Fleet, settings: Settings, held: bool
) -> None:
    seen = placed(fleet.snapshot())
    if held:
        seen = replace(seen, held=np.arange(len(seen.topics)) % 3 == 0)
    plan = POLICIES[name](seen, settings, NOW_S)
    assert objections(plan, seen) == []
    held_topics = {topic for topic, each in zip(seen.topics, seen.held.tolist(), strict=True) if each}
    assert not held_topics & {step.topic for step in plan.steps}


_HOMING = [area_homes.RANDOM, area_homes.NEAREST, area_homes.ONE_TOPIC, area_homes.RELOC, area_homes.SEARCH]
_some_homes = given(fleet=fleets(), most=st.none() | st.integers(0, 4), nowhere=st.integers(0, 2))


@pytest.mark.parametrize("name", _HOMING)
@_some_homes
def test_homes_in_an_area_are_given_by_plans_that_would_not_be_refused_within_their_budget(
    name: str, fleet: Fleet, most: int | None, nowhere: int
) -> None:
    _hold_to_what_homes_keep(name, fleet, most, nowhere)


@_some_homes
@examples(max_examples=8)
def test_so_are_the_best_homes_there_are(fleet: Fleet, most: int | None, nowhere: int) -> None:
    _hold_to_what_homes_keep(area_homes.EXACT, fleet, most, nowhere)


def _hold_to_what_homes_keep(name: str, fleet: Fleet, most: int | None, nowhere: int) -> None:
    seen = placed(fleet.snapshot())
    assert seen.area is not None
    assert seen.places is not None
    seen.places.brokers.height[:nowhere] = np.nan
    plan = POLICIES[name](seen, Settings(allocation=Allocation(most_changes=most)), NOW_S)
    assert objections(plan, seen) == []
    assert {strategy for step in plan.steps for strategy in (step.was_strategy, step.strategy)} <= {Strategy.HOMED}
    unknown = set(seen.brokers[:nowhere])
    lived_in = {seen.brokers[at] for at in seen.area.home.tolist() if at >= 0}
    came_to = {broker for step in plan.steps for broker in set(step.brokers) - set(step.was_brokers)}
    assert unknown & came_to <= lived_in, "only with clients who are there, and wait for their turn to leave"
    assert not unknown & {step.broker for step in plan.homes}
    had_one = [step for step in plan.homes if step.was]
    assert most is None or len(had_one) <= most
    if fleet.usable - unknown:
        homeless = {who for who, at in zip(seen.area.clients, seen.area.home.tolist(), strict=True) if at < 0}
        assert {step.subscriber for step in plan.homes if not step.was} == homeless


@given(fleet=fleets(), settings=all_settings(), nowhere=st.integers(0, 3))
def test_placement_by_promise_makes_no_plan_that_would_be_refused_and_moves_nothing_that_is_held(
    fleet: Fleet, settings: Settings, nowhere: int
) -> None:
    seen = placed(fleet.snapshot())
    places = seen.places
    assert places is not None
    places.brokers.height[:nowhere] = np.nan
    seen = replace(seen, held=np.arange(len(seen.topics)) % 3 == 0)
    plan = epulsar(seen, settings, NOW_S)
    assert objections(plan, seen) == []
    held = {topic for topic, each in zip(seen.topics, seen.held.tolist(), strict=True) if each}
    unknown = set(seen.brokers[:nowhere])
    bounds = dict(zip(seen.topics, places.bound_s.tolist(), strict=True))
    for step in plan.steps:
        assert step.topic not in held
        assert not (set(step.brokers) & unknown and bounds[step.topic] < np.inf)


@every_policy
@given(fleet=fleets(), settings=all_settings())
def test_the_number_of_servers_stays_within_its_bounds(name: str, fleet: Fleet, settings: Settings) -> None:
    plan = POLICIES[name](placed(fleet.snapshot()), settings, NOW_S)
    present = len(set(fleet.capacity) - set(fleet.silent))
    assert set(plan.release) <= fleet.usable
    if plan.release:
        assert len(fleet.usable) - len(plan.release) >= settings.min_brokers
    if plan.rent and settings.max_brokers is not None:
        assert present + plan.rent <= settings.max_brokers
    assert not (plan.rent and plan.release)


@every_policy
@given(fleet=fleets(), settings=all_settings())
def test_a_ring_that_changes_moves_no_topic_that_has_no_step(name: str, fleet: Fleet, settings: Settings) -> None:
    plan = POLICIES[name](placed(fleet.snapshot()), settings, NOW_S)
    if plan.ring is None:
        return
    ring = Ring(plan.ring, vnodes=fleet.ring.vnodes)
    stepped = {step.topic for step in plan.steps}
    for topic in fleet.demands:
        if topic not in fleet.routes and topic not in stepped:
            assert ring.owner(topic) == fleet.ring.owner(topic)


@given(fleet=fleets(), settings=all_settings())
def test_what_is_released_has_nothing_left_on_it_and_is_not_in_the_ring(fleet: Fleet, settings: Settings) -> None:
    plan = dynamoth(fleet.snapshot(), settings, NOW_S)
    after = fleet.after(plan)
    for topic in fleet.demands:
        assert not set(after.route_of(topic).brokers) & set(plan.release)
    assert not set(after.ring.brokers) & set(plan.release)


def _estimate(fleet: Fleet, plan: Plan) -> dict[str, float]:
    """Load ratios after the plan, by plain arithmetic: a broker that takes another's place takes its share."""
    loads = fleet.loads()
    for step in plan.steps:
        before = fleet.shares(step.topic)
        total = fleet.demands[step.topic].bytes_out
        for broker, share in before.items():
            loads[broker] -= share
        for broker in step.brokers:
            loads[broker] += total / len(step.brokers)
    return {name: loads[name] / fleet.capacity[name] for name in fleet.usable - set(plan.release)}


@given(fleet=fleets(silences=False), settings=all_settings())
def test_the_loads_that_a_plan_expects_are_those_of_plain_arithmetic(fleet: Fleet, settings: Settings) -> None:
    plan = dynamoth(fleet.snapshot(), settings, NOW_S)
    assert dict(plan.load_ratios) == pytest.approx(_estimate(fleet, plan), abs=1e-9)


@given(fleet=fleets(drains=False, silences=False), settings=all_settings())
def test_no_server_is_pushed_over(fleet: Fleet, settings: Settings) -> None:
    plan = dynamoth(fleet.snapshot(), settings, NOW_S)
    before, after = fleet.ratios(), _estimate(fleet, plan)
    can_rent = settings.max_brokers is None or len(fleet.capacity) < settings.max_brokers
    limit = settings.high_ratio if can_rent else settings.full_ratio
    for name, ratio in after.items():
        assert ratio <= max(before[name], limit) + SLACK
    if after:
        assert max(after.values()) <= max(settings.high_ratio, *before.values()) + SLACK


@given(fleet=fleets(silences=False), settings=all_settings())
def test_draining_pushes_no_server_over_while_one_can_be_rented_that_would_do(fleet: Fleet, settings: Settings) -> None:
    demands = {topic: replace(demand, bytes_out=min(demand.bytes_out, 40.0)) for topic, demand in fleet.demands.items()}
    fleet = replace(fleet, demands=demands, capacity=dict.fromkeys(fleet.capacity, 100.0))
    settings = replace(settings, max_brokers=None)
    before, after = fleet.ratios(), _estimate(fleet, dynamoth(fleet.snapshot(), settings, NOW_S))
    for name, ratio in after.items():
        assert ratio <= max(before[name], settings.high_ratio) + SLACK


@given(fleet=fleets(drains=False, silences=False), settings=all_settings())
def test_a_server_stays_overloaded_only_where_no_single_move_would_help(fleet: Fleet, settings: Settings) -> None:
    settings = replace(settings, forward_messages_per_s=1e9)
    plan = dynamoth(fleet.snapshot(), settings, NOW_S)
    after = _estimate(fleet, plan)
    stepped = {step.topic for step in plan.steps}
    for source in [name for name, ratio in after.items() if ratio > settings.high_ratio + SLACK]:
        for topic in fleet.demands:
            at = fleet.route_of(topic)
            if topic in stepped or source not in at.brokers or at.strategy is Strategy.HOMED:
                continue
            share = fleet.shares(topic)[source]
            for receiver in set(after) - set(at.brokers):
                full = after[receiver] + share / fleet.capacity[receiver] > settings.high_ratio - SLACK
                assert share == 0 or full, f"{topic} could go from {source} to {receiver}"


@given(fleet=fleets(drains=False, silences=False), settings=all_settings())
def test_a_server_that_stays_overloaded_is_spoken_of(fleet: Fleet, settings: Settings) -> None:
    plan = dynamoth(fleet.snapshot(), settings, NOW_S)
    if any(ratio > settings.high_ratio + SLACK for ratio in _estimate(fleet, plan).values()):
        assert plan.reasons


@given(fleet=fleets(silences=False), settings=all_settings())
def test_a_drained_server_loses_everything_unless_others_lack_room_or_topics_wait(
    fleet: Fleet, settings: Settings
) -> None:
    """With nothing more to rent and no cap, whatever it does to the others."""
    settings = replace(settings, forward_messages_per_s=1e9, max_brokers=settings.min_brokers)
    plan = dynamoth(fleet.snapshot(), settings, NOW_S)
    after = fleet.after(plan)
    if fleet.usable:
        left = {topic for topic in fleet.demands if set(after.route_of(topic).brokers) & set(fleet.draining)}
        assert not left or len(fleet.capacity) < settings.min_brokers
        if not left:
            assert not set(after.ring.brokers) & set(fleet.draining)


@given(fleet=fleets(silences=False), settings=all_settings())
def test_no_agent_has_to_forward_more_than_it_can_unless_for_one_topic_alone(fleet: Fleet, settings: Settings) -> None:
    plan = dynamoth(fleet.snapshot(), settings, NOW_S)
    asked: dict[str, list[float]] = {}
    for step in plan.steps:
        was, now = set(step.was_brokers), set(step.brokers)
        touched = was ^ now if step.strategy is step.was_strategy else was | now
        for broker in touched:
            copies = max(1, len(touched) - 1)
            asked.setdefault(broker, []).append(copies * fleet.demands[step.topic].publications)
    for each in asked.values():
        assert sum(each) <= settings.forward_messages_per_s + SLACK or sum(one > 0 for one in each) == 1


@given(fleet=fleets(silences=False), settings=all_settings())
def test_under_constant_load_plans_come_to_an_end(fleet: Fleet, settings: Settings) -> None:
    settings = replace(settings, max_brokers=max(settings.min_brokers, settings.max_brokers or 8))
    plan = dynamoth(fleet.snapshot(), settings, NOW_S)
    for _ in range(60):
        if not plan.changes:
            break
        fleet = fleet.after(plan)
        plan = dynamoth(fleet.snapshot(), settings, NOW_S)
    assert not plan.changes


@pytest.mark.parametrize("name", ["all-pairs", "epulsar"])
@given(fleet=fleets(drains=False, silences=False), settings=all_settings())
def test_placement_by_promise_pushes_no_server_over_any_limit(name: str, fleet: Fleet, settings: Settings) -> None:
    """Processors, bandwidth and messages, by plain arithmetic: a topic costs wherever it is what it costs now."""
    plan = POLICIES[name](placed(fleet.snapshot()), settings, NOW_S)
    received = {broker for step in plan.steps for broker in step.brokers}
    sent = {each.broker: each.used.out_messages_per_s or 0.0 for each in fleet.snapshot().reports()}
    cores = {each.broker: each.used.cores or 0.0 for each in fleet.snapshot().reports()}
    for step in plan.steps:
        (load,) = [
            each
            for report in fleet.snapshot().reports()
            for each in report.topics
            if each.topic == step.topic and report.broker == step.was_brokers[0]
        ]
        for totals, amount in ((sent, load.deliveries), (cores, fleet.cost * (load.publications + load.deliveries))):
            totals[step.was_brokers[0]] -= amount
            totals[step.brokers[0]] += amount
    ratios = _estimate(fleet, plan)
    for broker in received:
        assert ratios[broker] <= settings.watermark + SLACK
        assert sent[broker] <= (fleet.most.out_messages_per_s or np.inf) + 1e-6
        assert cores[broker] <= settings.watermark * (fleet.most.cores or np.inf) + 1e-6


_thresholds = st.builds(
    Replication,
    all_subscribers_ratio=st.sampled_from([1.0, 7.5, 100.0]),
    publications=st.sampled_from([1.0, 50.0]),
    all_publishers_ratio=st.sampled_from([1.0, 10.0]),
    subscribers=st.sampled_from([1, 20]),
)
_counts = st.floats(0, 1e5) | st.sampled_from([0.0, 1.0, 50.0, 100.0, 150.0])


@given(
    st.lists(st.tuples(_counts, st.integers(0, 100_000), _counts), max_size=8),
    _thresholds,
    st.builds(Bounds, st.sampled_from([80.0, 1e9]), st.sampled_from([60.0, 1e9])),
)
def test_the_number_of_replicas_is_that_of_the_definition(
    topics: list[tuple[float, int, float]], thresholds: Replication, bounds: Bounds
) -> None:
    publications, subscribers, bytes_out = (np.array([float(each[at]) for each in topics]) for at in range(3))
    strategy, count = replicas(publications, subscribers, bytes_out, thresholds, bounds)
    found = [(STRATEGIES[code], number) for code, number in zip(strategy.tolist(), count.tolist(), strict=True)]
    assert found == [replicas_plain(*each, thresholds, bounds) for each in topics]
