"""Probes, coordinates, the fleet's time and measured latencies in virtual time, on delays that are known."""

import asyncio
import random
from collections.abc import Mapping

import pytest

from nearcast.brokers.memory_pipe import Wire
from nearcast.domain.route import Strategy
from nearcast.domain.sketch import RELATIVE_ERROR
from nearcast.domain.whereabouts import BrokerPlace, TopicPlace, distance_s
from nearcast.sim.deployment import BUS, Deployment, SimClient
from nearcast.sim.loop import in_virtual_time
from nearcast.sim.network import Network
from tests.sim.conftest import TIMING, Finish

HERE_S = 0.0002  # one way between an agent and its own broker
JITTER_S = 0.0003
ACCESS_S = 0.002
# One way between sites, in ms: no tree and no line.
ONE_WAY_MS = {("b0", "b1"): 10.0, ("b0", "b2"): 25.0, ("b1", "b2"): 20.0, ("b0", "b3"): 40.0, ("b1", "b3"): 35.0}
ONE_WAY_MS |= {("b2", "b3"): 18.0}
BROKERS = ("b0", "b1", "b2", "b3")


def one_way_s(one: str, other: str) -> float:
    return HERE_S if one == other else ONE_WAY_MS[min((one, other), (other, one))] / 1e3


def trip_s(site: str, broker: str) -> float:
    """Of a client at the site to the broker's agent and back, with the usual jitter on the four ways."""
    return 2 * (ACCESS_S + one_way_s(site, broker) + HERE_S + JITTER_S)


def put(fleet: Deployment, process: str, site: str, *, access_s: float = 0.0) -> None:
    """The process is at the site of a broker, or on its way there."""
    for broker in BROKERS:
        fleet.network.set_wire(process, broker, Wire(access_s + one_way_s(site, broker), jitter_s=JITTER_S))
    fleet.network.set_wire(process, BUS, Wire(access_s + 0.03, jitter_s=JITTER_S))


def start(*, skewed: bool = False, seed: int = 1) -> Deployment:
    network = Network(random.Random(seed), store_delay_s=0.002)
    fleet = Deployment(network, BROKERS, timing=TIMING, rng=random.Random(seed + 1), skewed=skewed, surveyed=True)
    for broker in BROKERS:
        fleet.start_agent(broker)
        put(fleet, f"agent-{broker}", broker)
    fleet.start_coordinator("c0")
    put(fleet, "c0", "b0")
    return fleet


def client(fleet: Deployment, name: str, site: str, *, mobile: bool = False) -> SimClient:
    simulated = fleet.start_client(name, gateway=site if mobile else "")
    put(fleet, name, site, access_s=ACCESS_S)
    return simulated


def places(fleet: Deployment) -> Mapping[str, BrokerPlace]:
    leader = fleet.leader
    assert leader is not None
    return {each.broker: each for each in leader.places.fresh_places(leader._clock.now())}


def topic_at(fleet: Deployment, broker: str, topic: str = "t") -> TopicPlace | None:
    return {each.topic: each for each in places(fleet)[broker].topics}.get(topic)


def predicted_s(one: BrokerPlace, other: BrokerPlace) -> float:
    return distance_s(one.at, other.at)


async def publish(fleet: Deployment, sender: SimClient, seconds: float, rate_hz: float = 50.0) -> None:
    for _ in range(int(seconds * rate_hz)):
        await fleet.publish(sender, "t", b"x")
        await fleet.sleep(1 / rate_hz)


@in_virtual_time
async def test_agents_on_a_known_map_predict_each_others_round_trips() -> None:
    fleet = start(skewed=True)
    await fleet.sleep(90.0)
    found = places(fleet)
    assert set(found) == set(BROKERS)
    for (one, other), delay_ms in ONE_WAY_MS.items():
        true_s = 2 * (delay_ms / 1e3 + HERE_S)
        assert predicted_s(found[one], found[other]) == pytest.approx(true_s, rel=0.1)
        assert dict(found[one].rtts_s)[other] == pytest.approx(true_s, abs=0.002), "and measure them"


@in_virtual_time
async def test_the_leaders_map_is_what_agents_go_by() -> None:
    """By themselves they are up to 2.9 % off after two minutes with this seed; on it 0.6 %."""
    fleet = start()
    await fleet.sleep(120.0)
    found = places(fleet)
    off = [
        abs(predicted_s(found[one], found[other]) / dict(found[one].rtts_s)[other] - 1.0) for one, other in ONE_WAY_MS
    ]
    assert max(off) < 0.015, off


@in_virtual_time
async def test_latencies_are_right_within_their_uncertainty_however_wrong_the_clocks_are(finish: Finish) -> None:
    fleet = start(skewed=True)
    sender, near, far = client(fleet, "sender", "b1"), client(fleet, "near", "b1"), client(fleet, "far", "b3")
    await fleet.sleep(3.0)
    for each in (near, far):
        await fleet.subscribe(each, "t")
    await publish(fleet, sender, 1.0)
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b1",))
    await publish(fleet, sender, 25.0)
    place = topic_at(fleet, "b1")
    assert place is not None
    latencies = place.latencies
    assert latencies is not None
    assert latencies.samples > 500
    to_broker_s = ACCESS_S + HERE_S
    true_s = to_broker_s + ACCESS_S + one_way_s("b3", "b1")  # to the far one, half of all deliveries
    for measured_s in (latencies.p90_s, latencies.p99_s):
        assert abs(measured_s - true_s) <= latencies.uncertainty_s + RELATIVE_ERROR * true_s + 2 * JITTER_S
        assert measured_s == pytest.approx(true_s, rel=RELATIVE_ERROR, abs=0.003), "ways are as long there as back"
    assert latencies.uncertainty_s < 0.2, "clocks are seconds apart"
    offsets_s = [each.clock_offset_s for each in places(fleet).values()]
    assert max(offsets_s) - min(offsets_s) > 0.5
    assert place.worst_s == pytest.approx(trip_s("b1", "b1") + trip_s("b3", "b1"), abs=0.001)
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_the_coordinator_soon_sees_that_a_mobile_client_moved(finish: Finish) -> None:
    fleet = start()
    await fleet.sleep(20.0)
    drone, leader = client(fleet, "drone", "b1", mobile=True), client(fleet, "leader", "b1", mobile=True)
    await fleet.subscribe(drone, "t")
    publishing = asyncio.create_task(publish(fleet, leader, 30.0))
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b1",))
    await fleet.sleep(10.0)
    place = topic_at(fleet, "b1")
    assert place is not None
    assert place.worst_s == pytest.approx(2 * trip_s("b1", "b1"), abs=0.001), "both are there"
    put(fleet, "drone", "b3", access_s=ACCESS_S)
    drone.client.set_gateway("b3")
    moved_s = fleet.now
    while (place := topic_at(fleet, "b1")) is None or place.worst_s < 0.06:
        await fleet.sleep(0.05)
        assert fleet.now < moved_s + 1.5
    await fleet.sleep(6.0)
    place = topic_at(fleet, "b1")
    assert place is not None
    assert place.worst_s == pytest.approx(trip_s("b1", "b1") + trip_s("b3", "b1"), abs=0.001)
    assert place.subscribers is not None
    drone_at = BrokerPlace("drone", place.subscribers)
    nearest = min(places(fleet).values(), key=lambda each: predicted_s(drone_at, each))
    assert nearest.broker == "b3", "the drone is where its gateway is"
    await publishing
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_crashed_peer_and_a_partition_stop_nothing(finish: Finish) -> None:
    fleet = start()
    sender, receiver = client(fleet, "sender", "b0"), client(fleet, "receiver", "b1")
    await fleet.sleep(3.0)
    await fleet.subscribe(receiver, "t")
    publishing = asyncio.create_task(publish(fleet, sender, 40.0))
    await fleet.sleep(5.0)
    owner = fleet.ring.owner("t")
    victim, cut = [broker for broker in BROKERS if broker != owner][:2]
    await fleet.crash_agent(victim)
    fleet.network.refuse(f"agent-{cut}", owner)
    await fleet.sleep(15.0)
    found = places(fleet)
    assert victim not in found
    assert owner in found
    assert found[owner].at.vec != (0.0,) * 8
    fleet.network.heal()
    fleet.start_agent(victim)
    put(fleet, f"agent-{victim}", victim)
    await fleet.sleep(20.0)
    assert victim in places(fleet)
    await publishing
    result = await finish(fleet)
    assert result.honest
    assert result.delivered > 1900


@in_virtual_time
async def test_another_leader_goes_on_with_the_fleets_time() -> None:
    fleet = start(skewed=True)
    fleet.start_coordinator("c1")
    put(fleet, "c1", "b3")
    sender = client(fleet, "sender", "b1")
    await fleet.sleep(3.0)
    await publish(fleet, sender, 20.0, rate_hz=5.0)
    walls_s = [fleet.network.processes[name].clock.wall() for name in ("c0", "c1")]
    assert abs(walls_s[0] - walls_s[1]) > 0.5, "their own clocks are far apart"
    before_s = sender.client.time_ns() / 1e9 - fleet.now
    await fleet.crash_coordinator("c0")
    await publish(fleet, sender, 40.0, rate_hz=5.0)
    leader = fleet.leader
    assert leader is not None
    assert leader.name == "c1"
    assert sender.client._time.term == leader.term
    # Late by the shortest way of what was overheard, some 30 ms each; and clocks drift.
    assert abs(sender.client.time_ns() / 1e9 - fleet.now - before_s) < 0.1
