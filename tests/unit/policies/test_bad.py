"""Algorithm 1 of BAD, case by case."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from nearcast.domain.errors import ConfigError
from nearcast.domain.homes import Homes
from nearcast.domain.load import BrokerReport
from nearcast.domain.plan import Plan
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.registry import POLICIES
from nearcast.policies.settings import Balancing, Settings

BROKERS = ("a", "b", "c")
RATES = {f"k{rate}": float(rate) for rate in range(1, 101)}
EAGER = Balancing(alpha=0.0, beta_bytes_per_s=0.0, gamma=0.0, theta_bytes_per_s=0.0)


def seen(
    homes: Mapping[str, tuple[str, tuple[str, ...]]], *, draining: tuple[str, ...] = (), silent: str = ""
) -> Snapshot:
    reports = [BrokerReport(name, 0.0, 0.0, 100.0) for name in BROKERS if name != silent]
    found = Snapshot.of(reports, {}, Ring(BROKERS), at_s=1.0, draining=draining)
    return replace(found, homes=Homes.of(BROKERS, homes, RATES))


def planned(policy: str, snapshot: Snapshot, balancing: Balancing = EAGER) -> Plan:
    return POLICIES[policy](snapshot, Settings(balancing=balancing), 1.0)


def moves(plan: Plan) -> dict[str, str]:
    return {step.subscriber: step.broker for step in plan.homes}


def test_the_heaviest_subscriber_that_may_goes_from_the_heaviest_broker_to_the_lightest() -> None:
    crowd = {"s1": ("a", ("k30",)), "s2": ("a", ("k20",)), "s3": ("b", ("k5",)), "s4": ("c", ("k1",))}
    plan = planned("bad-ldm", seen(crowd), Balancing(alpha=0.6, beta_bytes_per_s=0.0))
    assert moves(plan) == {"s1": "c"}
    (step,) = plan.homes
    assert step.reason == "a carried the most, 100 B/s, where the mean was 37.3 B/s; c carried 2 B/s"
    assert plan.reasons == (
        "1 subscribers: cov 1.190, largest load 100 B/s before, cov 0.571, largest load 62 B/s after",
    )


def test_a_destination_may_not_come_to_carry_more_than_the_source_did() -> None:
    """s1 would bring b from 50 to 110, and a has 80; s2 only to 70. After that nobody may leave b for c."""
    crowd = {"s1": ("a", ("k30",)), "s2": ("a", ("k10",)), "s3": ("b", ("k25",)), "s4": ("c", ("k26",))}
    plan = planned("bad-ldm", seen(crowd), Balancing(alpha=0.1, beta_bytes_per_s=0.0))
    assert moves(plan) == {"s2": "b"}
    assert plan.reasons[0] == "cov stays at 0.121, above 0.1: no migration is valid any more"


def after(snapshot: Snapshot, plan: Plan) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    assert snapshot.homes is not None
    home = snapshot.homes.home.copy()
    for step in plan.homes:
        home[snapshot.homes.subscribers.index(step.subscriber)] = snapshot.brokers.index(step.broker)
    return replace(snapshot.homes, home=home).loads(len(snapshot.brokers))


def test_brokers_that_would_only_change_roles_are_left_as_they_are() -> None:
    plan = planned("bad-ldm", seen({"s": ("a", ("k50",))}))
    assert not plan.homes
    assert plan.reasons == ("cov stays at 1.414, above 0: no migration is valid any more",)


def test_similarity_decides_among_brokers_below_the_mean() -> None:
    crowd = {"s1": ("a", ("k40",)), "s2": ("a", ("k41",)), "s3": ("b", ("k1",)), "s4": ("c", ("k2", "k3"))}
    by_load = planned("bad-ldm", seen(crowd), Balancing(alpha=0.8, beta_bytes_per_s=0.0))
    assert moves(by_load) == {"s2": "b"}
    crowd["s2"] = ("a", ("k41", "k3"))
    alike = planned("bad-sdm", seen(crowd), Balancing(alpha=0.8, beta_bytes_per_s=0.0))
    assert moves(alike) == {"s2": "c"}


def test_nothing_is_done_below_either_threshold() -> None:
    crowd = {"s1": ("a", ("k30",)), "s2": ("a", ("k20",))}
    assert not planned("bad-ldm", seen(crowd), Balancing(alpha=2.0, beta_bytes_per_s=0.0)).homes
    assert not planned("bad-ldm", seen(crowd), Balancing(alpha=0.1, beta_bytes_per_s=34.0)).homes
    assert planned("bad-ldm", seen(crowd), Balancing(alpha=0.1, beta_bytes_per_s=33.0)).homes


def test_a_shuffle_deals_the_heaviest_first_to_the_lightest_and_is_followed_by_nothing_that_is_not_needed() -> None:
    crowd = {f"s{rate}": ("a", (f"k{rate}",)) for rate in (9, 8, 7, 3, 2, 1)}
    plan = planned("bad-shuffle", seen(crowd), replace(EAGER, gamma=0.5))
    assert plan.reasons[0] == "shuffle: cov was 1.414, above 0.5"
    assert after(seen(crowd), plan).tolist() == [20.0, 20.0, 20.0]
    again = {step.subscriber: (step.broker, crowd[step.subscriber][1]) for step in plan.homes}
    assert not planned("bad-shuffle", seen({**crowd, **again}), replace(EAGER, gamma=0.5)).homes


def test_without_extreme_imbalance_shuffle_only_migrates_by_the_scheme_that_is_set() -> None:
    crowd = {"s1": ("a", ("k30",)), "s2": ("a", ("k20",)), "s3": ("b", ("k5",)), "s4": ("c", ("k1",))}
    for scheme, policy in (("ldm", "bad-ldm"), ("sdm", "bad-sdm")):
        settings = Balancing(alpha=0.1, beta_bytes_per_s=0.0, gamma=9.0, scheme=scheme)  # type: ignore[arg-type]  # both are
        assert planned("bad-shuffle", seen(crowd), settings).homes == planned(policy, seen(crowd), settings).homes


def test_in_a_shuffle_those_who_have_not_subscribed_yet_are_dealt_by_number() -> None:
    crowd = {f"idle{number}": ("a", ()) for number in range(7)} | {"s1": ("a", ("k9",)), "s2": ("a", ("k8",))}
    plan = planned("bad-shuffle", seen(crowd))
    home = {name: each[0] for name, each in crowd.items()} | moves(plan)
    assert sorted(list(home.values()).count(name) for name in BROKERS) == [3, 3, 3]


@pytest.mark.parametrize("policy", ["bad-ldm", "bad-sdm", "bad-shuffle", "bad-groups"])
def test_a_broker_that_is_drained_loses_its_subscribers_and_a_silent_one_keeps_them(policy: str) -> None:
    crowd = {"s1": ("a", ("k3",)), "s2": ("a", ()), "s3": ("b", ("k2",)), "s4": ("c", ("k90",)), "s5": ("c", ("k80",))}
    plan = planned(policy, seen(crowd, draining=("a",), silent="c"), Balancing(beta_bytes_per_s=1e9))
    assert moves(plan) == {"s1": "b", "s2": "b"}
    assert {step.reason for step in plan.homes} == {"a is being drained"}
    assert not planned(policy, seen(crowd, draining=("a", "b"), silent="c")).homes


@pytest.mark.parametrize("policy", ["bad-ldm", "bad-sdm", "bad-shuffle", "bad-groups"])
def test_without_subscribers_there_is_nothing_to_do(policy: str) -> None:
    bare = replace(seen({}), homes=None)
    for snapshot in (bare, seen({})):
        plan = planned(policy, snapshot)
        assert not plan.changes
        assert plan.reasons == ("no subscriber has a home here: there is nothing to balance",)


def test_a_group_of_alike_subscribers_moves_together_where_one_by_one_would_pull_twice() -> None:
    alike = {f"s{number}": ("a", ("k50", f"k{number}")) for number in range(1, 5)}
    others = {f"t{number}": ("a", ("k60", f"k{number + 10}")) for number in range(1, 5)}
    crowd = {**alike, **others, "u": ("b", ("k99",)), "v": ("c", ("k98",))}
    settings = Balancing(alpha=0.4, beta_bytes_per_s=0.0)
    grouped, by_load = planned("bad-groups", seen(crowd), settings), planned("bad-ldm", seen(crowd), settings)
    assert after(seen(crowd), grouped).sum() < after(seen(crowd), by_load).sum()


def test_thresholds_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"balancing.alpha is -1; it must be 0 or more"):
        Balancing(alpha=-1)
    with pytest.raises(ConfigError, match=r"balancing.scheme is 'xyz'; one of"):
        Balancing(scheme="xyz")  # type: ignore[arg-type]  # that is what it is about
