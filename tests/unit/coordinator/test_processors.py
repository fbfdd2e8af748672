"""What policies see of processing, from what agents report."""

import numpy as np

from nearcast.coordinator.processors import processing_of
from nearcast.domain.load import BrokerReport, Processed
from nearcast.domain.slo import Slo
from nearcast.domain.whereabouts import BrokerPlace, Latencies, Spot, TopicPlace


def report(broker: str, *processed: Processed) -> BrokerReport:
    return BrokerReport(broker, 0.0, 0.0, 1e9, processed=processed)


def test_intervals_promises_and_what_was_measured_are_by_topic() -> None:
    found = processing_of(
        ("a", "b", "c", "d"),
        [report("b0", Processed("a", 10.0), Processed("b", 3.0)), report("b1", Processed("a", 20.0), Processed("c"))],
        [BrokerPlace("b0", Spot((0.0,), 0.0), (TopicPlace("a", latencies=Latencies(5, 0.01, 0.03, 0.04, 0.05)),))],
        {"a": Slo.parse("p90:50ms"), "b": Slo.parse("p50:10ms"), "d": Slo.parse("p99:70ms")},
    )
    assert found is not None
    np.testing.assert_array_equal(found.interval_ms, [20.0, 3.0, np.nan, np.nan])
    np.testing.assert_array_equal(found.bound_ms, [50.0, np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(found.p90_ms, [30.0, np.nan, np.nan, np.nan])


def test_without_a_processor_there_is_nothing_to_see() -> None:
    assert processing_of(("a",), [report("b0")], [], {"a": Slo.parse("p90:50ms")}) is None
