"""The clients of homed topics, as agents tell of them, and the area that a policy sees of it."""

from dataclasses import replace

import numpy as np
import pytest

from nearcast.coordinator.inhabitants import Inhabitant, area_of, inhabitants_of, unsettled, uses_in
from nearcast.coordinator.residents import Residents
from nearcast.domain.area import NOWHERE
from nearcast.domain.load import BrokerReport
from nearcast.domain.placing import places_of
from nearcast.domain.plan import Plan
from nearcast.domain.processor import Language, Processor
from nearcast.domain.ring import Ring
from nearcast.domain.route import Delegation, Route, Strategy
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.whereabouts import BrokerPlace, Spot
from nearcast.policies.registry import POLICIES
from nearcast.policies.settings import Allocation, Settings
from nearcast.wire.channels import AtHome, HomedClient, Resident

NAMES = ("b0", "b1", "b2")
AT = {"b0": 0.0, "b1": 0.02, "b2": 0.1}  # along a line, in seconds of round trip
ROUTES = {"t": Route(3, Strategy.HOMED, ("b0", "b1"), Processor(Language.PYTHON, "a.b:c", spool=4))}


def at_home(broker: str, *homed: HomedClient) -> AtHome:
    return AtHome(broker, 1, topics=("t", "u"), homed=homed)


def found(*messages: AtHome) -> dict[str, Inhabitant]:
    return inhabitants_of({message.broker: uses_in(message) for message in messages})


def seen(held: tuple[str, ...] = (), routes: dict[str, Route] | None = None) -> Snapshot:
    reports = [BrokerReport(name, 0.0, 0.0, 1e6) for name in NAMES]
    snapshot = Snapshot.of(reports, routes or ROUTES, Ring(NAMES), at_s=0.0, held=held, named=("u",))
    places = places_of(snapshot, [BrokerPlace(name, Spot((at_s,), 0.001)) for name, at_s in AT.items()], {})
    return replace(snapshot, places=places)


def client(*homes: str, at_s: float | None = 0.0, told: bool = True, topic: str = "t") -> Inhabitant:
    here = frozenset({topic})
    return Inhabitant(told, homes, homes, here, here, () if at_s is None else (at_s, 0.001))


def plan_for(clients: dict[str, Inhabitant], *, held: tuple[str, ...] = (), most: int | None = None) -> Plan:
    snapshot = seen(held)
    snapshot = replace(snapshot, area=area_of(snapshot, clients, ROUTES))
    return POLICIES["nearest-server"](snapshot, Settings(allocation=Allocation(most_changes=most)), 0.0)


# Who is where


def test_what_several_agents_say_of_one_client_is_put_together() -> None:
    (ann,) = found(
        at_home("b1", HomedClient("ann", (0,), (1,), "b1", (0.5, 0.1))),
        at_home("b0", HomedClient("ann", (1,), (), "b1")),
    ).values()
    assert ann == Inhabitant(True, ("b1",), ("b0", "b1"), frozenset({"t", "u"}), frozenset({"u"}), (0.5, 0.1))


def test_one_that_goes_from_home_to_home_has_both_until_all_agents_know() -> None:
    told = found(at_home("b0", HomedClient("ann", (), (0,), "b0")), at_home("b1", HomedClient("ann", (), (0,), "b1")))
    assert told["ann"].homes == ("b0", "b1")


def test_who_was_not_told_is_at_home_where_it_hears_and_else_where_it_publishes() -> None:
    told = found(
        at_home("b0", HomedClient("ann", (0,), ()), HomedClient("bob", (0,), ())),
        at_home("b2", HomedClient("ann", (), (0,))),
    )
    assert (told["ann"].homes, told["ann"].told) == (("b2",), False)
    assert told["bob"].homes == ("b0",)


def test_a_leader_keeps_the_last_whole_round_and_forgets_it_with_its_agent() -> None:
    residents = Residents(40.0)
    residents.heard(at_home("b0", HomedClient("ann", (), (0,), "b0")), 0.0)
    residents.heard(at_home("b1", HomedClient("bob", (), (0,), "b1")), 0.0)
    assert sorted(residents.inhabitants()) == ["ann", "bob"]
    assert residents.homes(NAMES) is None, "they follow no channel"
    residents.heard(AtHome("b0", 2), 5.0)
    assert sorted(residents.inhabitants()) == ["bob"]
    residents.forget("b1", 6.0)
    assert residents.inhabitants() == {}


def test_where_one_is_counts_its_channels_and_its_topics() -> None:
    residents = Residents(40.0)
    residents.heard(AtHome("b0", 1, keys=(("k", 1.0),), residents=(Resident("ann", (0,)),)), 0.0)
    residents.heard(at_home("b1", HomedClient("ann", (), (0,), "b2"), HomedClient("bob", (), (0,))), 0.0)
    assert [list(each) for each in residents.where("ann")] == [["b0", "b2"], ["b0", "b1"]]
    assert [list(each) for each in residents.where("bob")] == [[""], ["b1"]], "nobody has told it"


# What a policy sees


def test_an_area_has_ways_one_way_spools_and_the_homes_that_are_known() -> None:
    snapshot = seen()
    clients = {
        "ann": client("b1", at_s=0.04),
        "bob": client("b0", "b2"),
        "cid": client("b9"),
        "dot": client("b0", at_s=None),
    }
    area = area_of(snapshot, clients, ROUTES)
    assert area is not None
    assert area.clients == ("ann", "bob", "cid"), "nobody knows where dot is"
    assert area.home.tolist() == [1, NOWHERE, NOWHERE]
    assert area.home_s(area.home)[0] == pytest.approx((0.04 - 0.02 + 0.002) / 2)
    assert [snapshot.topics[each] for each in area.topic.tolist()] == ["t"] * 3
    assert area.spool.tolist() == [4.0 if name == "t" else 0.0 for name in snapshot.topics]
    assert np.isinf(area.storage).all()
    assert area_of(snapshot, {"dot": clients["dot"]}, ROUTES) is None
    assert area_of(replace(snapshot, places=None), clients, ROUTES) is None


def test_topics_stay_whose_clients_are_not_all_known_or_that_an_operator_delegates() -> None:
    routes = {**ROUTES, "v": Route(1, Strategy.HOMED, ("b0", "b1"), delegation=Delegation("b1", ("b0",)))}
    clients = [client("b0", at_s=None, topic="u"), client("b0")]
    assert unsettled(clients, routes) == {"u", "v"}


# Routes go with homes


def test_a_topic_goes_to_where_its_clients_are_to_be_at_home_and_leaves_where_none_is() -> None:
    plan = plan_for({"ann": client("b1", at_s=0.1), "bob": client("b0", at_s=0.0)})
    assert [(step.subscriber, step.was, step.broker) for step in plan.homes] == [("ann", "b1", "b2")]
    (step,) = plan.steps
    assert (step.strategy, step.brokers, step.was_brokers) == (Strategy.HOMED, ("b0", "b2"), ("b0", "b1"))
    assert step.reason == "clients of it are to be at home at b2; none of them will be at b1"


def test_who_waits_for_its_turn_keeps_its_broker_on_the_route_and_a_topic_that_rests_stays() -> None:
    clients = {"ann": client("b1", at_s=0.1), "bob": client("b0", at_s=0.0)}
    waits = plan_for(clients, most=0)
    assert (waits.homes, waits.steps) == ((), ())
    assert plan_for(clients, held=("t",)).steps == ()
