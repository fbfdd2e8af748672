"""Homes of any shape: loads that are followed, and every policy that gives subscribers another home."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from nearcast.control.verify import objections
from nearcast.domain.homes import Homes, cov_of, loads_plain
from nearcast.domain.load import BrokerReport
from nearcast.domain.plan import Plan
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.snapshot_json import read_snapshot, write_snapshot
from nearcast.policies.bad import least_loaded, migrate, most_similar
from nearcast.policies.bad_spread import Spread
from nearcast.policies.registry import POLICIES
from nearcast.policies.settings import Balancing, Settings
from tests.property import policy_fleets

BALANCING = ("bad-groups", "bad-ldm", "bad-sdm", "bad-shuffle")
KEYS = tuple(f"k{number}" for number in range(9))
Crowd = dict[str, tuple[str, tuple[str, ...]]]

_rates = st.sampled_from([0.0, 0.0, 1.0, 1.0, 5.0, 60.0]) | st.floats(0.0, 1e6) | st.sampled_from([1e-9, 0.1, 1e12])
_some = st.lists(st.sampled_from(KEYS), max_size=5, unique=True).map(tuple)


@st.composite
def fleets(draw: st.DrawFn, *, drains: bool = True) -> tuple[Snapshot, Crowd, dict[str, float]]:
    names = ("a", "b", "c", "d")[: draw(st.integers(1, 4))]
    crowd = {f"s{number:02}": (draw(st.sampled_from(names)), draw(_some)) for number in range(draw(st.integers(0, 12)))}
    rates = {key: draw(_rates) for key in KEYS}
    some = st.lists(st.sampled_from(names), max_size=2, unique=True)
    draining, silent = (draw(some), draw(some)) if drains else ([], [])
    reports = [BrokerReport(name, 0.0, 0.0, 100.0) for name in names if name not in silent]
    bare = Snapshot.of(reports, {}, Ring(names, vnodes=4), at_s=5.0, draining=draining)
    return replace(bare, homes=Homes.of(bare.brokers, crowd, rates)), crowd, rates


_settings = st.builds(
    Balancing,
    alpha=st.sampled_from([0.0, 0.05, 0.15, 0.5]),
    beta_bytes_per_s=st.sampled_from([0.0, 0.0, 10.0]),
    gamma=st.sampled_from([0.0, 0.3]),
    theta_bytes_per_s=st.just(0.0),
    scheme=st.sampled_from(["ldm", "sdm"]),
).map(lambda balancing: Settings(balancing=balancing))


def homes_of(snapshot: Snapshot) -> Homes:
    assert snapshot.homes is not None
    return snapshot.homes


def carried_out(snapshot: Snapshot, plan: Plan) -> Homes:
    homes = homes_of(snapshot)
    home = homes.home.copy()
    for step in plan.homes:
        at = homes.subscribers.index(step.subscriber)
        assert snapshot.brokers[home[at]] == step.was
        home[at] = snapshot.brokers.index(step.broker)
    return replace(homes, home=home)


@given(fleet=fleets(), moves=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=30))
def test_loads_that_are_followed_from_move_to_move_are_bit_for_bit_those_computed_anew(
    fleet: tuple[Snapshot, Crowd, dict[str, float]], moves: list[tuple[int, int]]
) -> None:
    snapshot, _, _ = fleet
    homes, count = homes_of(snapshot), len(snapshot.brokers)
    spread = Spread(homes, np.ones(count, dtype=np.bool_))
    for who, where in moves if homes.subscribers else []:
        spread.move(who % len(homes.subscribers), where % count)
    now = replace(homes, home=spread.home)
    assert spread.load.tolist() == now.loads(count).tolist() == loads_plain(now, count)
    assert (spread.count == now.counts(count)).all()
    for broker in range(count):
        ranked = spread.at_home(broker)
        assert sorted(ranked.tolist()) == np.flatnonzero(spread.home == broker).tolist()
        assert (np.diff(spread.weight[ranked]) <= 0).all()


@pytest.mark.parametrize("name", BALANCING)
@given(fleet=fleets(), settings=_settings)
def test_a_plan_gives_each_at_most_one_other_home_that_may_be_used_and_nobody_objects(
    name: str, fleet: tuple[Snapshot, Crowd, dict[str, float]], settings: Settings
) -> None:
    snapshot, _, _ = fleet
    plan = POLICIES[name](snapshot, settings, 5.0)
    assert len({step.subscriber for step in plan.homes}) == len(plan.homes)
    usable = {each for each, may in zip(snapshot.brokers, snapshot.usable.tolist(), strict=True) if may}
    assert {step.broker for step in plan.homes} <= usable
    assert objections(plan, snapshot) == []
    after = carried_out(snapshot, plan)
    draining = {each for each, out in zip(snapshot.brokers, snapshot.draining.tolist(), strict=True) if out}
    if usable:
        assert not {snapshot.brokers[at] for at in after.home.tolist()} & draining
    assert {step.was for step in plan.homes} <= usable | draining


@pytest.mark.parametrize("name", BALANCING)
@given(fleet=fleets(), settings=_settings)
def test_equal_facts_give_equal_plans_in_whatever_order_they_come_and_from_a_file(
    name: str, fleet: tuple[Snapshot, Crowd, dict[str, float]], settings: Settings
) -> None:
    snapshot, crowd, rates = fleet
    plan = POLICIES[name](snapshot, settings, 5.0)
    turned = {who: (home, tuple(reversed(keys))) for who, (home, keys) in reversed(crowd.items())}
    other = Homes.of(snapshot.brokers, turned, dict(reversed(rates.items())))
    assert POLICIES[name](replace(snapshot, homes=other), settings, 5.0) == plan
    assert POLICIES[name](read_snapshot(write_snapshot(snapshot)), settings, 5.0) == plan


@pytest.mark.parametrize("name", ["bad-groups", "bad-ldm", "bad-sdm"])
@given(fleet=fleets(drains=False), settings=_settings)
def test_migration_never_lets_the_largest_load_grow_and_ends_where_it_would_end_again(
    name: str, fleet: tuple[Snapshot, Crowd, dict[str, float]], settings: Settings
) -> None:
    snapshot, _, _ = fleet
    plan = POLICIES[name](snapshot, settings, 5.0)
    count = len(snapshot.brokers)
    after = carried_out(snapshot, plan)
    assert after.loads(count).max(initial=0.0) <= homes_of(snapshot).loads(count).max(initial=0.0)
    assert not POLICIES[name](replace(snapshot, homes=after), settings, 5.0).homes


@given(fleet=fleets(drains=False), alpha=st.sampled_from([0.0, 0.1]), by_load=st.booleans())
def test_every_single_migration_is_valid(
    fleet: tuple[Snapshot, Crowd, dict[str, float]], alpha: float, by_load: bool
) -> None:
    """The destination's load after it does not exceed the source's before it; only the heaviest gives."""
    snapshot, _, _ = fleet
    spread = Spread(homes_of(snapshot), snapshot.usable)
    scheme = least_loaded if by_load else most_similar

    def watched(now: Spread, source: int) -> tuple[list[int], int] | None:
        found = scheme(now, source)
        if found is not None:
            (who,), to = found
            before = now.load.copy()
            moved = now.home.copy()
            moved[who] = to
            then = replace(now.homes, home=moved).loads(len(before))
            assert before[source] == before.max()
            assert then[to] <= before[source]
            assert sorted(then, reverse=True) < sorted(before, reverse=True)
        return found

    migrate(spread, watched, Balancing(alpha=alpha, beta_bytes_per_s=0.0), snapshot.brokers)


@given(fleet=fleets(), settings=_settings)
def test_a_shuffle_is_only_made_for_a_lower_cov(
    fleet: tuple[Snapshot, Crowd, dict[str, float]], settings: Settings
) -> None:
    snapshot, _, _ = fleet
    plan = POLICIES["bad-shuffle"](snapshot, settings, 5.0)
    if not snapshot.draining.any() and snapshot.usable.any():
        before, after = (
            each.loads(len(snapshot.brokers)) for each in (homes_of(snapshot), carried_out(snapshot, plan))
        )
        assert cov_of(after[snapshot.usable]) <= cov_of(before[snapshot.usable]) or not plan.homes


@pytest.mark.parametrize("name", sorted(set(POLICIES) - set(BALANCING)))
@examples(max_examples=30)
@given(fleet=policy_fleets.fleets(), settings=policy_fleets.all_settings())
def test_policies_for_topics_take_no_notice_of_homes(name: str, fleet: policy_fleets.Fleet, settings: Settings) -> None:
    seen = policy_fleets.placed(fleet.snapshot())
    crowd = {f"s{number}": (seen.brokers[0], ("k",)) for number in range(9)}
    homed = replace(seen, homes=Homes.of(seen.brokers, crowd, {"k": 1e6}))
    assert POLICIES[name](homed, settings, 5.0) == POLICIES[name](seen, settings, 5.0)
