"""Reports on the wire: bounded, and refused when they are absurd."""

import math

import msgspec
import pytest

from nearcast.domain.errors import MalformedControl
from nearcast.domain.load import BrokerReport, Handover, Resources, TopicLoad
from nearcast.wire.control import seal, unseal
from nearcast.wire.dialect import NEWEST, Dialect
from nearcast.wire.loads import MOST_HANDOVERS, MOST_REPORTED, Load, load_of

DIALECT = Dialect(b"fleet")


def loaded(number: int) -> TopicLoad:
    return TopicLoad(f"{number:05d}".ljust(200, "x"), 1e9 / 7, 2e9 / 7, 3e9 / 7, 4e9 / 7, 10**9, 10**12)


def test_of_too_many_topics_the_busiest_are_named_and_the_rest_is_summed() -> None:
    topics = tuple(loaded(number) for number in range(MOST_REPORTED + 50))
    handovers = tuple(Handover(each.topic, 10**15, 10**18, 10**12, 1e9 / 7) for each in topics)
    load = load_of(BrokerReport("b1", 1.0, 5.0, 6.0, topics, handovers=handovers))
    assert load.report.topics == topics[:MOST_REPORTED]
    assert load.report.handovers == handovers[:MOST_HANDOVERS]
    assert load.left_out == 50
    rest = load.rest
    assert rest is not None
    assert rest.topic == ""
    rates = (rest.publications, rest.deliveries, rest.bytes_in, rest.bytes_out)
    assert [round(rate * 7 / 1e9, 6) for rate in rates] == [50.0, 100.0, 150.0, 200.0]
    assert (rest.publishers, rest.subscribers) == (50 * 10**9, 50 * 10**12)
    assert len(seal(load, DIALECT)) < 1 << 20, "more than a NATS server takes in one message"
    assert unseal(seal(load, DIALECT), DIALECT) == load


def test_a_report_that_fits_is_whole() -> None:
    report = BrokerReport("b1", 1.0, 5.0, math.inf, (loaded(1),))
    assert load_of(report) == Load(report)


def test_a_report_of_an_agent_that_does_not_know_resources_is_read() -> None:
    old = {"broker": "b1", "at_s": 1.0, "out_bytes_per_s": 5.0, "capacity_bytes_per_s": 6.0, "topics": []}
    body = msgspec.msgpack.encode({"type": "Load", "report": old})
    found = unseal(bytes((NEWEST,)) + DIALECT.signature(body, NEWEST) + body, DIALECT)
    assert found == Load(BrokerReport("b1", 1.0, 5.0, 6.0))


@pytest.mark.parametrize(
    "report",
    [
        BrokerReport("b1", 1.0, -1.0, 6.0),
        BrokerReport("b1", 1.0, math.nan, 6.0),
        BrokerReport("b1", 1.0, 1.0, 0.0),
        BrokerReport("b1", 1.0, 1.0, 6.0, used=Resources(cores=-0.1)),
        BrokerReport("b1", 1.0, 1.0, 6.0, used=Resources(out_messages_per_s=math.nan)),
        BrokerReport("b1", 1.0, 1.0, 6.0, most=Resources(memory_bytes=0.0)),
        BrokerReport("b1", 1.0, 1.0, 6.0, (TopicLoad("t", -1.0, 0.0, 0.0, 0.0, 0, 0),)),
        BrokerReport("b1", 1.0, 1.0, 6.0, (TopicLoad("t", 0.0, 0.0, 0.0, math.inf, 0, 0),)),
        BrokerReport("b1", 1.0, 1.0, 6.0, (TopicLoad("t", 0.0, 0.0, 0.0, 0.0, 0, -1),)),
        BrokerReport("b1", 1.0, 1.0, 6.0, tuple(loaded(number) for number in range(MOST_REPORTED + 1))),
        BrokerReport("b1", 1.0, 1.0, 6.0, handed_over=Handover("", forwarded=-1)),
        BrokerReport("b1", 1.0, 1.0, 6.0, handovers=(Handover("t", 1, 1, 1, math.nan),)),
        BrokerReport("b1", 1.0, 1.0, 6.0, handovers=(Handover("t"),) * (MOST_HANDOVERS + 1)),
    ],
)
def test_a_report_that_cannot_be_true_is_refused(report: BrokerReport) -> None:
    body = msgspec.msgpack.encode({"type": "Load", "report": report})
    with pytest.raises(MalformedControl):
        unseal(bytes((NEWEST,)) + DIALECT.signature(body, NEWEST) + body, DIALECT)
