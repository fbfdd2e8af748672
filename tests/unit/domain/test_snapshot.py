"""What a policy may see, built from reports and routes."""

import dataclasses
import math

import numpy as np
import pytest

from nearcast.domain.errors import SnapshotError
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.ring import Ring
from nearcast.domain.route import Strategy, route
from nearcast.domain.snapshot import Snapshot

CALM = TopicLoad("calm", 1.0, 2.0, 10.0, 20.0, 1, 2)
BUSY = TopicLoad("busy", 100.0, 900.0, 1000.0, 9000.0, 10, 9)
FIRST = BrokerReport("b1", 5.0, 9500.0, 10_000.0, (CALM, BUSY))
SECOND = BrokerReport("b2", 5.5, 100.0, 20_000.0, (CALM,))


def test_brokers_topics_and_loads_are_found_by_index() -> None:
    seen = Snapshot.of(
        [SECOND, FIRST],
        {"busy": route(3, Strategy.ALL_SUBSCRIBERS, ("b1", "b2"))},
        Ring(("b1",)),
        at_s=6.0,
        sites={"b2": "boston"},
        draining=("b1",),
        planned_s=2.0,
        renting=1,
    )
    assert (seen.brokers, seen.sites, seen.topics) == (("b1", "b2"), ("", "boston"), ("busy", "calm"))
    assert (seen.at_s, seen.planned_s, seen.renting) == (6.0, 2.0, 1)
    assert seen.load_ratios.tolist() == [0.95, 0.005]
    assert seen.usable.tolist() == [False, True]
    assert seen.entries.broker.tolist() == [0, 0, 1]
    assert seen.entries.topic.tolist() == [0, 1, 1]
    assert seen.entries.bytes_out.tolist() == [9000.0, 20.0, 20.0]
    assert seen.entries.subscribers.tolist() == [9, 2, 2]
    assert (seen.strategy_of(0), seen.brokers_of(0)) == (Strategy.ALL_SUBSCRIBERS, ("b1", "b2"))


def test_a_topic_that_no_route_names_is_where_the_ring_puts_it() -> None:
    ring = Ring(("b1", "b2", "b3"))
    loads = tuple(TopicLoad(f"t{i}", 1, 1, 1, 1, 1, 1) for i in range(50))
    seen = Snapshot.of([BrokerReport("b1", 0.0, 0.0, 1.0, loads)], {}, ring, at_s=0.0)
    assert [seen.brokers_of(at) for at in range(50)] == [(ring.owner(topic),) for topic in seen.topics]
    assert set(seen.epoch.tolist()) == {-1}
    assert {seen.strategy_of(at) for at in range(50)} == {Strategy.SINGLE}


def test_a_topic_with_a_route_and_no_load_is_there() -> None:
    seen = Snapshot.of([FIRST], {"quiet": route(1, Strategy.SINGLE, ("b1",))}, Ring(("b1",)), at_s=0.0)
    assert seen.topics == ("busy", "calm", "quiet")
    assert seen.brokers_of(2) == ("b1",)


def test_a_broker_that_is_named_and_has_not_reported_is_silent_and_not_used() -> None:
    seen = Snapshot.of([FIRST], {"busy": route(1, Strategy.SINGLE, ("b0",))}, Ring(("b9",)), at_s=0.0)
    assert seen.brokers == ("b0", "b1", "b9")
    assert seen.silent.tolist() == [True, False, True]
    assert seen.usable.tolist() == [False, True, False]
    assert seen.load_ratios.tolist() == [0.0, 0.95, 0.0]


def test_what_a_snapshot_was_made_of_is_found_in_it_again() -> None:
    routes = {"busy": route(3, Strategy.ALL_PUBLISHERS, ("b1", "b2")), "quiet": route(0, Strategy.SINGLE, ("b2",))}
    seen = Snapshot.of([SECOND, FIRST], routes, Ring(("b1", "b7")), at_s=0.0)
    assert seen.routes() == routes
    assert seen.reports() == [dataclasses.replace(FIRST, topics=(BUSY, CALM)), SECOND]


def test_the_arrays_of_a_snapshot_cannot_be_written() -> None:
    seen = Snapshot.of([FIRST], {}, Ring(("b1",)), at_s=0.0)
    with pytest.raises(ValueError, match="read-only"):
        seen.out[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        seen.entries.bytes_out[0] = 1.0


def test_an_empty_system_is_a_snapshot_too() -> None:
    seen = Snapshot.of([], {}, Ring(("b1",)), at_s=0.0)
    assert (seen.topics, len(seen.entries.broker), seen.reports(), seen.routes()) == ((), 0, [], {})
    assert np.all(seen.silent)


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ([FIRST, FIRST], "broker 'b1' has two reports"),
        ([dataclasses.replace(FIRST, capacity_bytes_per_s=0.0)], "broker 'b1' has a capacity of 0.0"),
        ([dataclasses.replace(FIRST, capacity_bytes_per_s=math.nan)], "broker 'b1' has a capacity of nan"),
        ([dataclasses.replace(FIRST, out_bytes_per_s=math.nan)], "broker 'b1' has out_bytes_per_s nan"),
        ([dataclasses.replace(FIRST, topics=(BUSY, BUSY))], "broker 'b1' reports topic 'busy' twice"),
        (
            [dataclasses.replace(FIRST, topics=(CALM, dataclasses.replace(BUSY, bytes_out=-1.0)))],
            "broker 'b1', topic 'busy': bytes_out is -1.0",
        ),
        (
            [dataclasses.replace(FIRST, topics=(dataclasses.replace(BUSY, subscribers=-2),))],
            "broker 'b1', topic 'busy': subscribers is -2",
        ),
    ],
)
def test_facts_that_cannot_be_are_refused(reports: list[BrokerReport], message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        Snapshot.of(reports, {}, Ring(("b1",)), at_s=0.0)


def test_a_draining_broker_that_is_gone_is_silent() -> None:
    seen = Snapshot.of([FIRST], {}, Ring(("b1",)), at_s=0.0, draining=("b7",))
    assert (seen.brokers, seen.silent.tolist(), seen.draining.tolist()) == (("b1", "b7"), [False, True], [False, True])
