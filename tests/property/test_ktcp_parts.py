"""Topics that are shared by several brokers, of whatever rates: no two parts meet, and every part is in time alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.control.verify import objections
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.processing import Processing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.ktcp import ktcp_exact, ktcp_ffd, ktcp_hybrid, ktcp_lfs
from nearcast.policies.registry import Policy
from nearcast.policies.settings import Settings
from nearcast.predict.queueing import Processors, waiting_ms

BROKERS = tuple(f"b{number}" for number in range(12))
RATES = st.lists(st.integers(1, 200), min_size=1, max_size=5)


def seen(rates: list[int], at: dict[str, tuple[str, ...]]) -> Snapshot:
    routes = {
        topic: Route(1, Strategy.SINGLE if len(where) == 1 else Strategy.ALL_SUBSCRIBERS, where)
        for topic, where in at.items()
    }
    loads: dict[str, list[TopicLoad]] = {broker: [] for broker in BROKERS}
    for number, rate in enumerate(rates):
        where = at[f"t{number}"]
        for broker in where:
            part = rate / len(where)
            loads[broker].append(TopicLoad(f"t{number}", part, part, part, part, max(1, rate // len(where)), 1))
    reports = [BrokerReport(broker, 0.0, 0.0, 1e9, tuple(each)) for broker, each in loads.items()]
    found = Snapshot.of(reports, routes, Ring(BROKERS), at_s=0.0)
    count = len(found.topics)
    processing = Processing(np.full(count, 20.0), np.full(count, 1000.0), np.full(count, np.nan))
    return replace(found, processing=processing)


@pytest.mark.parametrize("policy", [ktcp_ffd, ktcp_lfs, ktcp_hybrid, ktcp_exact])
@settings(max_examples=25)
@given(rates=RATES)
def test_parts_are_apart_in_time_and_as_few_as_will_do(policy: Policy, rates: list[int]) -> None:
    at: dict[str, tuple[str, ...]] = {f"t{number}": (BROKERS[number % 2],) for number in range(len(rates))}
    snapshot = seen(rates, at)
    plan = policy(snapshot, Settings(), 0.0)
    assert objections(plan, snapshot) == []
    for step in plan.steps:
        rate, parts = rates[int(step.topic[1:])], len(step.brokers)
        assert len(set(step.brokers)) == parts
        assert (step.strategy is Strategy.ALL_SUBSCRIBERS) == (parts > 1)
        assert _alone_ms(rate / parts) <= 900.0
        if parts > 1:
            assert _alone_ms(rate / (parts - 1) * 1.1) > 900.0  # rates are rounded up to two digits


@settings(max_examples=25)
@given(rates=RATES)
def test_what_was_planned_stays(rates: list[int]) -> None:
    at: dict[str, tuple[str, ...]] = {f"t{number}": (BROKERS[number % 2],) for number in range(len(rates))}
    first = ktcp_ffd(seen(rates, at), Settings(), 0.0)
    at |= {step.topic: step.brokers for step in first.steps}
    assert ktcp_ffd(seen(rates, at), Settings(), 1.0).steps == ()


def _alone_ms(rate_hz: float) -> float:
    return float(waiting_ms(np.array([[20.0]]), np.array([[rate_hz]]), Processors())[0, 0])
