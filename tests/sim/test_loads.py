"""Counts and reports in virtual time: exact figures, forged ones, and an agent that dies."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nearcast.agent import Agent
from nearcast.agent.analyzer import Analyzer
from nearcast.client import Client
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.route import Strategy
from nearcast.domain.sketch import value_of
from nearcast.sim.deployment import BUS, DIALECT, Deployment
from nearcast.sim.loop import in_virtual_time
from nearcast.wire.control import AGENT_SUBJECT, Loaded, LoadOrder, seal
from nearcast.wire.dialect import Dialect
from nearcast.wire.envelope import HEADER_BYTES
from nearcast.wire.loads import Counts, TopicCount
from tests.sim.conftest import TIMING

StartFleet = Callable[..., Awaitable[Deployment]]
PAYLOAD = bytes(100 - HEADER_BYTES)
BROKERS = ("b0", "b1")


async def start(start_fleet: StartFleet) -> Deployment:
    fleet = await start_fleet(*BROKERS, agents=())
    for number, broker in enumerate(BROKERS, 1):
        process = fleet.network.start_process(f"agent-{broker}")
        fleet.agents[broker] = agent = Agent(
            broker,
            process.connect,
            fleet.ring,
            bus=BUS,
            incarnation=number,
            dialect=DIALECT,
            clock=process.clock,
            timing=TIMING,
            analyzer=Analyzer(broker, 1e6),
        )
        agent.start()
    await fleet.sleep(3.0)
    return fleet


def client_of(fleet: Deployment, name: str) -> Client:
    process = fleet.network.start_process(name)
    return Client(
        name,
        process.connect,
        fleet.ring,
        dialect=DIALECT,
        clock=process.clock,
        timing=TIMING,
        rng=process.rng,
        count_every_s=1.0,
    )


def reports(fleet: Deployment) -> dict[str, BrokerReport]:
    assert fleet.leader is not None
    return {report.broker: report for report in fleet.leader.reports.fresh(fleet.now)}


def load(fleet: Deployment, broker: str, topic: str) -> TopicLoad | None:
    return {each.topic: each for each in reports(fleet)[broker].topics}.get(topic)


def who(fleet: Deployment, broker: str, topic: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    reporter = fleet.agents[broker]._reporter
    assert reporter is not None
    return reporter.analyzer.who(topic)


def near(load: TopicLoad, **rates: float) -> bool:
    """While a topic moves, agents show on it that they are there."""
    return all(0.9 * rate <= getattr(load, name) <= 1.2 * rate for name, rate in rates.items())


async def publish(fleet: Deployment, client: Client, topic: str, rate_hz: int, seconds: int) -> None:
    for _ in range(rate_hz * seconds):
        await client.publish(topic, PAYLOAD)
        await fleet.sleep(1 / rate_hz)


@in_virtual_time
async def test_rates_are_reported_where_they_are_and_follow_a_move(start_fleet: StartFleet) -> None:
    fleet = await start(start_fleet)
    sender, *receivers = (client_of(fleet, name) for name in ("sender", "r1", "r2"))
    for each in receivers:
        await each.subscribe("t", lambda _message: None)
    owner, other = sorted(BROKERS, key=lambda broker: broker != fleet.ring.owner("t"))
    sending = asyncio.create_task(publish(fleet, sender, "t", 20, 40))
    await fleet.sleep(6.0)
    found = load(fleet, owner, "t")
    assert found is not None
    assert near(found, publications=20, deliveries=40, bytes_in=2000, bytes_out=4000)
    assert (found.publishers, found.subscribers) == (1, 2)
    assert reports(fleet)[owner].load_ratio == pytest.approx(0.004, rel=0.1)
    assert load(fleet, other, "t") is None

    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, (other,))
    await fleet.sleep(10.0)
    moved, left = load(fleet, other, "t"), load(fleet, owner, "t")
    assert moved is not None
    assert near(moved, publications=20, deliveries=40, bytes_in=2000, bytes_out=4000)
    assert left is None or (left.publications, left.subscribers, left.deliveries) == (0, 0, 0)
    await fleet.sleep(2 * TIMING.lease_s + 2.0)
    carried, (handover,) = reports(fleet)[owner].handed_over, reports(fleet)[owner].handovers
    assert handover.topic == "t"
    assert 0 < handover.forwarded <= 20, "the sender is told with its next message"
    assert handover.forwarded_bytes == 100 * handover.forwarded
    assert (carried.forwarded, carried.notices) == (handover.forwarded, handover.notices)
    assert handover.notices >= 2, "on the topic, and to the sender"
    assert handover.emptied_s is not None
    assert handover.emptied_s == pytest.approx(2 * TIMING.lease_s, abs=1.5), "all followed at once, then 2L of silence"
    assert reports(fleet)[other].handed_over.emptied_s is None, "nothing has left it"
    await sending
    await fleet.sleep(4.0)
    for _ in range(6):
        await fleet.sleep(1.0)
        quiet = load(fleet, other, "t")
        assert quiet is not None
        assert quiet.subscribers == 2
        assert quiet.publications <= 1, "now and then the sender says that it is idle"
        assert quiet.publishers == len(who(fleet, other, "t")[0]), "which is not taken for a plain client's message"
    for client in (sender, *receivers):
        await client.close()


@in_virtual_time
async def test_what_subscribers_suffer_is_counted_by_the_agent_of_where_they_are(start_fleet: StartFleet) -> None:
    fleet = await start(start_fleet)
    sender, receiver = client_of(fleet, "sender"), client_of(fleet, "receiver")
    reports: list[Gap | Discontinuity] = []
    await receiver.subscribe("t", lambda _message: None, on_report=reports.append)
    sending = asyncio.create_task(publish(fleet, sender, "t", 20, 30))
    other = next(broker for broker in BROKERS if broker != fleet.ring.owner("t"))
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, (other,))
    await fleet.sleep(5.0)
    heard = fleet.agents[other].complaints
    assert heard.pauses == {0: 1}, "it changed brokers, and could receive all the while"
    assert (heard.gaps, heard.discontinuities) == (0, 0)

    fleet.network.crash_broker(other)
    await fleet.sleep(2.0)
    fleet.network.restart_broker(other)
    await sending
    await fleet.sleep(10.0)
    found = [fleet.agents[broker].complaints for broker in BROKERS]
    longest_s = max(value_of(bucket) for each in found for bucket in each.pauses)
    assert 2.0 <= longest_s < 10.0
    told = {(each.broker, each.from_s) for each in reports if isinstance(each, Discontinuity)}
    assert sum(each.discontinuities for each in found) == len(told) > 0
    assert sum(each.gaps for each in found) == sum(isinstance(each, Gap) for each in reports)
    for client in (sender, receiver):
        await client.close()


@in_virtual_time
async def test_forged_and_absurd_counts_are_counted_as_unreadable_and_dropped(start_fleet: StartFleet) -> None:
    fleet = await start(start_fleet)
    agent = fleet.agents["b0"]
    link = await fleet.network.connector("forger")("b0", lambda _up: None)
    forged = Counts("forger", 1.0, (TopicCount("forged", 100, 100_000),))
    for data in (seal(forged, Dialect(b"another key")), seal(forged, DIALECT)[:-1], seal(forged, DIALECT)[:20], b""):
        link.publish(AGENT_SUBJECT, data)
    await fleet.sleep(2.0)
    assert agent.rejects.count == 4
    assert reports(fleet)["b0"].topics == ()
    link.publish(AGENT_SUBJECT, seal(forged, DIALECT))
    await fleet.sleep(1.5)
    assert load(fleet, "b0", "forged") == TopicLoad("forged", 100.0, 0.0, 100_000.0, 0.0, 1, 0), "signed: it is taken"
    await link.close()


@in_virtual_time
async def test_the_report_of_an_agent_that_died_is_forgotten(start_fleet: StartFleet) -> None:
    fleet = await start(start_fleet)
    assert set(reports(fleet)) == set(BROKERS)
    await fleet.crash_agent("b1")
    await fleet.sleep(2 * TIMING.lease_s)
    assert set(reports(fleet)) == {"b0"}
    assert fleet.leader is not None
    assert fleet.leader.reports.answer(LoadOrder("operator", 1, "b1"), fleet.now) == Loaded(1, None)


@in_virtual_time
async def test_who_does_nothing_says_nothing(start_fleet: StartFleet) -> None:
    fleet = await start(start_fleet)
    client = client_of(fleet, "idle")
    await client.subscribe("t", lambda _message: None)
    said: list[bytes] = []
    link = await fleet.network.connector("ear")(fleet.ring.owner("t"), lambda _up: None)
    await link.subscribe(AGENT_SUBJECT, said.append)
    await fleet.sleep(10.0)
    assert said, "it renews its lease"
    assert not any(b"Counts" in each for each in said)
    await client.close()
    await link.close()
