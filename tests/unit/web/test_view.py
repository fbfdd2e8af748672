"""What is shown of one look, at the size of a large fleet too."""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nearcast.domain.broker import Presence
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.placing import places_of
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.snapshot_json import read_snapshot, write_snapshot
from nearcast.domain.whereabouts import BrokerPlace, Spot, TopicPlace
from nearcast.web.view import View
from nearcast.wire.brokers import BrokerStanding
from nearcast.wire.control import AgentState, Status
from nearcast.wire.promises import PromiseStanding
from nearcast.wire.rebalancing import Rebalancing

SLO = Slo.parse("p95:40ms")


def seen(
    loads: Mapping[str, tuple[TopicLoad, ...]],
    routes: dict[str, Route],
    standings: list[PromiseStanding],
    places: list[BrokerPlace] | None = None,
    lost: str = "",
) -> View:
    brokers = tuple(loads)
    ring = Ring(brokers)
    reports = [
        BrokerReport(name, 0.0, sum(each.bytes_out for each in found), 1e6, found) for name, found in loads.items()
    ]
    snapshot = Snapshot.of(reports, routes, ring, at_s=0.0, sites={name: f"site of {name}" for name in brokers})
    if places is not None:
        found = places_of(snapshot, places, {each.topic: SLO for each in standings if each.slo})
        snapshot = read_snapshot(write_snapshot(replace(snapshot, places=found)))
    agents = tuple(AgentState(name, name != lost, 0.1) for name in brokers)
    standing = tuple(BrokerStanding(name, Presence.PRESENT, "", f"site of {name}", False, True, 0) for name in brokers)
    status = Status(1, "c0", 3, agents, len(snapshot.topics), (), 0, brokers, standing)
    by_topic = {each.topic: each for each in standings}
    return View(0.0, status, snapshot, by_topic, {}, Rebalancing(1), None, "epulsar")


def load(topic: str, publications: float, bytes_out: float = 1000.0) -> TopicLoad:
    return TopicLoad(topic, publications, 2 * publications, 500.0, bytes_out, 1, 2)


def test_who_sends_to_or_listens_at_several_brokers_is_counted_once() -> None:
    routes = {
        "copied": Route(2, Strategy.ALL_PUBLISHERS, ("b1", "b2")),
        "heard": Route(1, Strategy.ALL_SUBSCRIBERS, ("b1", "b2")),
    }
    loads = {each: (load("copied", 10.0), load("heard", 10.0)) for each in ("b1", "b2")}
    copied, heard = seen(loads, routes, []).topics
    assert (copied.publications_hz, copied.publishers, copied.subscribers) == (10.0, 1, 4)
    assert (heard.publications_hz, heard.publishers, heard.subscribers) == (20.0, 2, 2)
    assert (copied.deliveries_hz, copied.by_ring, copied.epoch) == (40.0, False, 2)


def test_promises_are_counted_as_they_stand_and_risk_is_what_is_nearest_to_its_bound() -> None:
    loads = {"b1": tuple(load(topic, 1.0) for topic in ("kept", "broken", "quiet", "free"))}
    view = seen(
        loads,
        {},
        [
            PromiseStanding("kept", "p95:40ms", 30.0, 20.0, 9, 0.0, True),
            PromiseStanding("broken", "p95:40ms", 30.0, 44.0, 9, 0.0, False),
            PromiseStanding("quiet", "p95:40ms"),
            PromiseStanding("free", "", 90.0, 80.0),
        ],
    )
    assert (view.promises.kept, view.promises.broken, view.promises.unknown) == (1, 1, 1)
    assert {each.topic: (each.promise, each.risk) for each in view.topics} == {
        "kept": ("kept", 0.75),
        "broken": ("broken", 1.1),
        "quiet": ("unknown", None),
        "free": ("none", None),
    }
    assert [each.topic for each in view.map(1).topics] == ["broken"]


def test_a_broker_has_its_load_against_capacity_and_says_when_its_agent_is_lost() -> None:
    view = seen({"b1": (load("a", 1.0, 4e5),), "b2": (load("b", 1.0, 2e5),)}, {}, [], lost="b2")
    first, second = view.brokers
    assert (first.load_ratio, second.load_ratio, view.balancedness) == (0.4, 0.2, 0.75)
    assert (first.agent, second.agent) == ("present", "lost")
    assert view.told("c1", 0.0, "").agents_lost == ("b2",)


def test_a_thousand_topics_are_worked_out_well_within_a_look() -> None:
    rng = np.random.default_rng(1)
    names = [f"t{number:04d}" for number in range(1000)]
    brokers = [f"b{number:02d}" for number in range(20)]
    spots = {name: Spot(tuple(rng.normal(size=8) * 0.02), 0.001) for name in brokers}
    loads: dict[str, tuple[TopicLoad, ...]] = {}
    places = []
    for number, name in enumerate(brokers):
        own = names[number::20]
        loads[name] = tuple(load(topic, 5.0) for topic in own)
        topics = tuple(TopicPlace(topic, spots[name], spots[name], 0.001, 0.02) for topic in own)
        places.append(BrokerPlace(name, spots[name], topics))
    routes = {topic: Route(1, Strategy.SINGLE, (brokers[number % 20],)) for number, topic in enumerate(names)}
    standings = [PromiseStanding(topic, "p95:40ms", 10.0, 12.0, 100, 0.0, True) for topic in names]
    view = seen(loads, routes, standings, places)
    begun_s = time.process_time()
    assert len(view.topics) == 1000
    assert len(view.brokers) == 20
    drawn = view.map(200)
    took_s = time.process_time() - begun_s
    assert (len(drawn.topics), drawn.left_out) == (200, 800)
    assert all(each.publishers is not None for each in drawn.topics)
    assert took_s < 0.5
