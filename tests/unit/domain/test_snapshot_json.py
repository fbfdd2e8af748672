"""The snapshot file: versioned JSON with a published schema."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearcast.domain.errors import SnapshotError
from nearcast.domain.homes import Homes
from nearcast.domain.load import BrokerReport, Resources, TopicLoad
from nearcast.domain.placing import places_of
from nearcast.domain.ring import Ring
from nearcast.domain.route import Strategy, route
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.snapshot_json import read_snapshot, snapshot_schema, write_snapshot
from nearcast.domain.whereabouts import BrokerPlace, Spot, TopicPlace

SCHEMA = Path(__file__).parents[3] / "docs" / "snapshot.schema.json"


def a_snapshot() -> Snapshot:
    loads = (TopicLoad("chat/é", 1.5, 3.0, 15.0, 30.0, 1, 2), TopicLoad("tile", 2.0, 4.0, 6.0, 8.0, 3, 4))
    return Snapshot.of(
        [
            BrokerReport("b1", 9.0, 50.0, 100.0, loads, Resources(0.25, out_messages_per_s=7.0), Resources(cores=2.0)),
            BrokerReport("b2", 9.5, 0.0, 100.0),
        ],
        {"tile": route(4, Strategy.ALL_SUBSCRIBERS, ("b1", "b3"))},
        Ring(("b1", "b2"), version=2, vnodes=8),
        at_s=10.0,
        sites={"b1": "boston"},
        draining=("b2",),
        planned_s=3.25,
        renting=1,
        relieved=("b1",),
    )


def with_change(**changes: Any) -> bytes:
    return json.dumps({**json.loads(write_snapshot(a_snapshot())), **changes}).encode()


def test_a_snapshot_is_read_as_it_was_written() -> None:
    written = write_snapshot(a_snapshot())
    read = read_snapshot(written)
    assert write_snapshot(read) == written
    assert (read.reports(), read.routes()) == (a_snapshot().reports(), a_snapshot().routes())
    assert (read.at_s, read.planned_s, read.renting) == (10.0, 3.25, 1)
    assert (read.ring, read.ring.version) == (a_snapshot().ring, 2)
    assert (read.brokers, read.sites) == (("b1", "b2", "b3"), ("boston", "", ""))
    assert (read.draining.tolist(), read.silent.tolist()) == ([False, True, False], [False, False, True])
    assert read.relieved.tolist() == [True, False, False]


def test_where_everybody_is_is_read_as_it_was_written_and_so_are_topics_that_only_places_name() -> None:
    seen = Snapshot.of(
        [BrokerReport(name, 9.0, 0.0, most) for name, most in (("b1", math.inf), ("b2", 100.0), ("b3", 100.0))],
        {},
        Ring(("b1", "b2", "b3")),
        at_s=10.0,
        named=("t", "u"),
        held=("u",),
    )
    at = Spot((0.01, 0.02), 0.001)
    topic = TopicPlace("t", at, at, 0.002, 0.05, elsewhere=(("b1", 0.03), ("b9", 0.01)))
    told = [BrokerPlace("b2", at, (topic,)), BrokerPlace("b1", Spot((0.05, 0.02), 0.002))]
    seen = replace(seen, places=places_of(seen, told, {"t": Slo(95, 20.0)}))
    written = write_snapshot(seen)
    read = read_snapshot(written)
    assert write_snapshot(read) == written
    assert read.places is not None
    assert seen.places is not None
    for name in ("deviation_s", "worst_s", "bound_s"):
        assert getattr(read.places, name).tolist() == getattr(seen.places, name).tolist()
    assert read.places.brokers.height.tolist() == pytest.approx([0.001, 0.0005, math.nan], nan_ok=True)
    every = np.arange(2)
    expected_s = read.places.expected_anywhere_s(every)
    assert expected_s[0].tolist() == pytest.approx([0.015, 0.025, math.nan], nan_ok=True), "as measured"
    assert np.array_equal(expected_s, seen.places.expected_anywhere_s(every), equal_nan=True)
    assert (read.topics, read.held.tolist()) == (("t", "u"), [False, True])
    assert read.capacity.tolist() == [math.inf, 100.0, 100.0]


def _placed(**places: Any) -> bytes:
    return with_change(places=places)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_placed(brokers=[{"name": "b9", "at": {"vec": [1.0], "height": 0.0}}]), "a broker 'b9' that is not in brok"),
        (_placed(topics=[{"topic": "t"}, {"topic": "t"}]), "places.topics has 't' twice"),
        (_placed(topics=[{"topic": "t", "worst_s": -1.0}]), "worst_s"),
        (_placed(topics=[{"topic": "t", "measured": [{"broker": "b1", "worst_s": 1.0}]}]), "'t' was measured at 'b1'"),
        (_placed(topics=[{"topic": "t", "worst": 1.0}]), "unknown field `worst`"),
        (
            _placed(
                brokers=[
                    {"name": "b1", "at": {"vec": [1.0], "height": 0.0}},
                    {"name": "b2", "at": {"vec": [1.0, 2.0], "height": 0.0}},
                ]
            ),
            "places of 1 and of 2 dimensions",
        ),
    ],
)
def test_places_that_cannot_be_are_refused_with_the_reason(content: bytes, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        read_snapshot(content, "f.json")


def test_the_published_schema_is_that_of_the_code() -> None:
    assert SCHEMA.read_bytes() == snapshot_schema(), "run: .venv/bin/python scripts/write_snapshot_schema.py"


def test_the_schema_names_every_field_of_a_written_file() -> None:
    described = json.loads(snapshot_schema())["$defs"]
    file = json.loads(write_snapshot(a_snapshot()))
    report = file["brokers"][0]["report"]
    for name, shown in (
        ("File", file),
        ("Ring", file["ring"]),
        ("Broker", file["brokers"][0]),
        ("Route", file["routes"][0]),
        ("Report", report),
        ("Load", report["topics"][0]),
    ):
        assert set(described[name]["properties"]) == set(shown)
        assert described[name]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not json", "s.json: is not JSON"),
        (b"[1]", "s.json: is not a nearcast snapshot: its 'schema' is None"),
        (b'{"schema": "kafka/1"}', "s.json: is not a nearcast snapshot: its 'schema' is 'kafka/1'"),
        (b'{"schema": "nearcast.snapshot/2"}', "is of version 'nearcast.snapshot/2'; this nearcast reads"),
        (with_change(renting=-1), r"s.json: Expected `int` >= 0 - at `\$.renting`"),
        (with_change(drained=True), "unknown field `drained`"),
        (with_change(brokers=[{"name": "b1", "report": None}] * 2), "s.json: brokers has 'b1' twice"),
        (with_change(ring={"brokers": ["b1", "b1"]}), "s.json: broker 'b1' is in the ring twice"),
        (
            with_change(routes=[{"topic": "t", "epoch": 1, "strategy": "single", "brokers": ["b1", "b2"]}]),
            "s.json: a single route has one broker",
        ),
        (with_change(routes=[{"topic": "t", "epoch": 1, "strategy": "best", "brokers": ["b1"]}]), "'best'"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_reason(content: bytes, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        read_snapshot(content, "s.json")


def test_homes_are_read_as_they_were_written() -> None:
    rates = {"k1": 0.25, "k2": 1e6}
    crowd = {"s2": ("b3", ("k2", "k1")), "s1": ("b1", ())}
    seen = replace(a_snapshot(), homes=Homes.of(a_snapshot().brokers, crowd, rates))
    written = write_snapshot(seen)
    read = read_snapshot(written)
    assert write_snapshot(read) == written
    assert read.homes is not None
    assert (read.homes.subscribers, read.homes.keys) == (("s1", "s2"), ("k1", "k2"))
    assert (read.homes.home.tolist(), read.homes.rate.tolist()) == ([0, 2], [0.25, 1e6])
    assert (read.homes.first.tolist(), read.homes.key.tolist()) == ([0, 0, 2], [0, 1])
    assert read_snapshot(write_snapshot(a_snapshot())).homes is None


@pytest.mark.parametrize(
    ("homes", "message"),
    [
        ({"subscribers": [{"name": "s", "home": "b9"}]}, "s.json: the home of subscriber 's' is 'b9', which is not a"),
        ({"subscribers": [{"name": "s", "home": "b1"}] * 2}, "s.json: homes.subscribers has 's' twice"),
        ({"subscribers": [{"name": "s", "home": "b1", "keys": ["k"]}]}, "has the subscription 'k' without a rate"),
        ({"subscriptions": [{"key": "k", "bytes_per_s": -1}]}, "Expected `float` >= 0.0"),
        ({"subscribers": [{"name": "s", "broker": "b1"}]}, "missing required field `home`|unknown field `broker`"),
    ],
)
def test_homes_that_cannot_be_are_refused(homes: dict[str, Any], message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        read_snapshot(with_change(homes=homes), "s.json")


def with_area(**changes: Any) -> bytes:
    """Two servers, two topics and a client of both, as a person would write them."""
    spot = {"vec": [0.0, 0.001], "height": 0.0}
    client = {"name": "c", "at": spot, "home": "b1", "publishes": ["t", "u"], "subscribes": ["u"]}
    area: dict[str, Any] = {
        "cloud_s": 0.005,
        "clients": [client],
        "spools": [{"topic": "t", "messages": 8}],
        "limits": [{"server": "b1", "storage": 10, "compute": None}],
    } | changes
    return with_change(
        places={"brokers": [{"name": name, "at": spot} for name in ("b1", "b2")], "topics": []},
        area=area | {"clients": [client | each for each in area["clients"]]},
    )


def test_an_area_is_read_as_it_was_written() -> None:
    read = read_snapshot(with_area())
    area = read.area
    assert area is not None
    assert (area.clients, area.home.tolist(), area.first.tolist()) == (("c",), [0], [0, 2])
    assert [read.topics[at] for at in area.topic] == ["t", "u"]
    assert (area.publishes.tolist(), area.subscribes.tolist()) == ([True, True], [False, True])
    assert (area.storage.tolist(), area.compute.tolist()) == ([10.0, math.inf, math.inf], [math.inf] * 3)
    assert dict(zip(read.topics, area.spool.tolist(), strict=True))["t"] == 8.0
    assert area.reachable.tolist() == [True, True, False]
    written = write_snapshot(read)
    assert write_snapshot(read_snapshot(written)) == written


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"clients": [{"home": "b9"}]}, "the home of client 'c' is 'b9', which is not a broker"),
        ({"clients": [{}, {}]}, "area.clients has 'c' twice"),
        ({"clients": [{"publishes": ["t", "t"]}]}, "client 'c' publishes or subscribes to a topic twice"),
        ({"clients": [{"at": {"vec": [0.0], "height": 0.0}}]}, "client 'c' is in a space of 1 dimensions"),
        ({"limits": [{"server": "x"}]}, "area.limits is 'x', which is not a broker"),
        ({"limits": [{"server": "b1", "storage": 0}]}, "storage"),
        ({"cloud_s": -1.0}, "cloud_s"),
        ({"spools": [{"topic": "t", "messages": -1}]}, "messages"),
    ],
)
def test_an_area_that_contradicts_itself_is_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        read_snapshot(with_area(**changes))


def test_an_area_without_places_is_refused() -> None:
    with pytest.raises(SnapshotError, match=r"say in places\.brokers where servers are"):
        read_snapshot(with_change(area={"cloud_s": 0.0}))
