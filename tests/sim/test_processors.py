"""Topics that are processed, in virtual time: what subscribers get while topics move, processors fail, agents die."""

import random
from collections.abc import Awaitable, Callable, Sequence

import pytest

from nearcast.brokers.memory_pipe import Wire
from nearcast.control.loop import LoopSettings
from nearcast.control.publisher import Publisher
from nearcast.control.stage import HUNG, RAISED, Job
from nearcast.domain.errors import MoveRefused
from nearcast.domain.message import Message
from nearcast.domain.processor import Language, Processor, WhenFull
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.route import Strategy
from nearcast.sim.check import CheckResult, check
from nearcast.sim.deployment import Deployment, SimClient
from nearcast.sim.loop import in_virtual_time
from nearcast.sim.network import Network
from nearcast.sim.reconfiguration import Scale, grace_s, run_seed
from nearcast.transport.crew import Crew
from nearcast.wire.control import inlet_subject
from nearcast.wire.processors import ProcessOrder
from nearcast.wire.promises import PromiseOrder
from tests.sim.conftest import TIMING

Finish = Callable[[Deployment], Awaitable[CheckResult]]
PASSED_ON = "nearcast.processing.samples:passed_on"
SINGLE = Strategy.SINGLE
EVERY_S = 5.0


def marked(message: Message, spool: Sequence[Message]) -> bytes:
    return b"%s after %s" % (message.payload, b"".join(each.payload for each in spool))


def moody(message: Message, _spool: Sequence[Message]) -> object:
    made: dict[bytes, object] = {b"none": None, b"two": [b"two-1", b"two-2"], b"number": 3, b"many": []}
    if message.payload == b"raise":
        raise ValueError("a bad day")
    return made.get(message.payload, message.payload)


def code_of(function: Callable[..., object]) -> str:
    return f"{function.__module__}:{function.__name__}"


def processor(code: str = PASSED_ON, **options: object) -> Processor:
    return Processor(Language.PYTHON, code, **options)  # type: ignore[arg-type]  # of a test's own


async def start(*brokers: str, takes_s: Callable[[Job], float] = lambda _job: 0.01) -> Deployment:
    names = brokers or ("b0", "b1", "b2")
    network = Network(random.Random(1), wire=Wire(delay_s=0.005), store_delay_s=0.002)
    fleet = Deployment(network, names, timing=TIMING, rng=random.Random(2), takes_s=takes_s)
    for broker in names:
        fleet.start_agent(broker)
    fleet.start_coordinator("c0")
    await fleet.sleep(3.0)
    return fleet


async def set_processor(fleet: Deployment, made: Processor | None, *brokers: str, topic: str = "t") -> None:
    leader = fleet.leader
    assert leader is not None
    await leader.move(topic, SINGLE, brokers or ("b0",), processor=made)


async def move(fleet: Deployment, *brokers: str) -> None:
    leader = fleet.leader
    assert leader is not None
    await leader.move("t", SINGLE, brokers)


async def listen(fleet: Deployment, name: str = "receiver") -> tuple[SimClient, list[bytes]]:
    receiver, heard = fleet.start_client(name), list[bytes]()
    await fleet.subscribe(receiver, "t", also=lambda _number, message: heard.append(message.payload))
    return receiver, heard


async def send(fleet: Deployment, sender: SimClient, *payloads: bytes) -> None:
    for each in payloads:
        await fleet.publish(sender, "t", each)


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


# What a subscriber gets


@in_virtual_time
async def test_a_subscriber_gets_what_the_processor_made_of_each_message(finish: Finish) -> None:
    fleet = await start()
    await set_processor(fleet, processor(code_of(marked), spool=2))
    _, heard = await listen(fleet)
    await send(fleet, fleet.start_client("sender"), b"a", b"b", b"c", b"d")
    result = await finish(fleet)
    assert heard == [b"a after ", b"b after a", b"c after ab", b"d after bc"]
    assert result.clean, result.counts()


@in_virtual_time
async def test_nothing_several_and_failures_keep_their_place_and_no_gap_is_reported(finish: Finish) -> None:
    fleet = await start()
    await set_processor(fleet, processor(code_of(moody)))
    _, heard = await listen(fleet)
    sender = fleet.start_client("sender")
    await send(fleet, sender, b"1", b"none", b"two", b"raise", b"number", b"many", b"2")
    result = await finish(fleet)
    assert heard == [b"1", b"two-1", b"two-2", b"2"]
    assert (result.gaps, result.discontinuities) == (0, 0)
    assert [(topic, dead.message.payload, dead.failure) for topic, dead in fleet.buried] == [
        ("t", b"raise", RAISED),
        ("t", b"number", RAISED),
    ]
    (counted,) = fleet.agents["b0"].machine.processing()
    assert (counted.processed, counted.raised, counted.queue) == (5, 2, 0)
    assert "expected bytes" in counted.errors[0]


@in_virtual_time
async def test_one_that_hangs_is_dead_after_its_limit_and_the_next_is_processed(finish: Finish) -> None:
    fleet = await start(takes_s=lambda job: 100.0 if job.message.payload == b"hang" else 0.01)
    await set_processor(fleet, processor(limit_ms=500))
    _, heard = await listen(fleet)
    await send(fleet, fleet.start_client("sender"), b"1", b"hang", b"2")
    result = await finish(fleet)
    assert heard == [b"1", b"2"]
    assert (result.gaps, result.discontinuities) == (0, 0)
    assert [dead.failure for _, dead in fleet.buried] == [HUNG]


@in_virtual_time
async def test_what_a_plain_client_puts_into_the_inlet_is_processed_too(finish: Finish) -> None:
    fleet = await start()
    await set_processor(fleet, processor(code_of(marked)))
    _, heard = await listen(fleet)
    link = await fleet.network.start_process("plain").connect("b0", lambda _up: None)
    link.publish(inlet_subject("t"), b"plain")
    link.publish("t", b"as it is")
    await finish(fleet)
    assert sorted(heard) == [b"as it is", b"plain after "]


# Moves


@in_virtual_time
async def test_a_processed_topic_moves_under_traffic_and_nothing_is_lost_or_out_of_order(finish: Finish) -> None:
    fleet = await start(takes_s=lambda _job: 0.1)
    await set_processor(fleet, processor())
    _, heard = await listen(fleet)
    sender = fleet.start_client("sender")
    for turn, broker in enumerate(("b1", "b2", "b0")):
        await send(fleet, sender, *numbered(10 * turn + 1, 10 * turn + 10))
        await move(fleet, broker)
    result = await finish(fleet)
    assert heard == numbered(1, 30)
    assert result.clean, result.counts()
    assert {agent.machine.processing()[0].processed for agent in fleet.agents.values() if agent.machine.processing()}


@in_virtual_time
async def test_on_changed_and_off_under_traffic_each_message_comes_once_in_order(finish: Finish) -> None:
    fleet = await start(takes_s=lambda _job: 0.1)
    _, heard = await listen(fleet)
    sender = fleet.start_client("sender")
    changes = (processor(code_of(marked)), processor(), None, processor(code_of(marked)))
    for turn, made in enumerate(changes):
        await send(fleet, sender, *numbered(10 * turn + 1, 10 * turn + 10))
        await set_processor(fleet, made)
    await send(fleet, sender, *numbered(41, 50))
    result = await finish(fleet)
    assert [each.removesuffix(b" after ") for each in heard] == numbered(1, 50)
    assert sum(each.endswith(b" after ") for each in heard) >= 15
    assert result.clean, result.counts()


@in_virtual_time
async def test_who_waits_behind_others_at_the_old_broker_is_waited_for_at_the_new_one(finish: Finish) -> None:
    fleet = await start(takes_s=lambda _job: 0.3)
    await set_processor(fleet, processor())
    _, heard = await listen(fleet)
    busy, late = fleet.start_client("busy"), fleet.start_client("late")
    await send(fleet, late, b"first")
    await fleet.sleep(1.0)
    await send(fleet, busy, *numbered(1, 9))
    await send(fleet, late, b"old")  # 2.7 s behind the others: longer than a hole is waited for
    await move(fleet, "b1")
    await fleet.sleep(0.1)
    await send(fleet, late, b"new")
    result = await finish(fleet)
    assert [each for each in heard if not each.isdigit()] == [b"first", b"old", b"new"]
    assert result.clean, result.counts()


@in_virtual_time
async def test_a_broker_is_not_quiet_while_it_still_processes(finish: Finish) -> None:
    fleet = await start(takes_s=lambda job: 20.0 if job.message.payload == b"slow" else 0.01)
    await set_processor(fleet, processor(limit_ms=30_000))
    _, heard = await listen(fleet)
    await send(fleet, fleet.start_client("sender"), b"slow")
    await move(fleet, "b1")
    await fleet.sleep(3 * TIMING.quiet_s)
    result = await finish(fleet)
    assert heard == [b"slow"]
    assert result.clean, result.counts()


@in_virtual_time
async def test_what_is_sent_past_the_processor_waits_for_what_is_still_there(finish: Finish) -> None:
    fleet = await start(takes_s=lambda _job: 0.3)
    await set_processor(fleet, processor())
    _, heard = await listen(fleet)
    sender = fleet.start_client("sender")
    await send(fleet, sender, *numbered(1, 9))
    await set_processor(fleet, None)
    await fleet.sleep(1.5)  # everybody has settled, and some are still at the processor
    assert len(heard) < 8
    await send(fleet, sender, *numbered(10, 12))
    result = await finish(fleet)
    assert heard == numbered(1, 12)
    assert result.clean, result.counts()


@in_virtual_time
async def test_a_connection_that_breaks_when_processing_ends_loses_nothing(finish: Finish) -> None:
    fleet = await start(takes_s=lambda _job: 0.5)
    await set_processor(fleet, processor())
    _, heard = await listen(fleet)
    sender = fleet.start_client("sender")
    await send(fleet, sender, b"1")
    machine = sender.client.publication("t").machine
    assert isinstance(machine, Publisher)
    leader, last = fleet.leader, 1
    assert leader is not None
    leader.begin("t", SINGLE, ("b0",), processor=None)
    while machine.inlet:
        last += 1
        await send(fleet, sender, b"%d" % last)
        await fleet.sleep(0.01)
    assert machine.unconfirmed
    others = [each for each in (*fleet.network.processes, *fleet.network.brokers, "store") if each != "sender"]
    fleet.network.partition([["sender"], others])
    await fleet.sleep(1.5)  # the subscriber has settled, and messages from before are still at the processor
    assert len(heard) < last - 1
    fleet.network.heal()
    await send(fleet, sender, b"%d" % (last + 1))
    result = await finish(fleet)
    assert heard == numbered(1, last + 1)
    assert result.clean, result.counts()


# Faults


@in_virtual_time
async def test_what_an_agent_that_dies_had_in_hand_is_reported_also_of_a_publisher_nobody_knew(finish: Finish) -> None:
    fleet = await start(takes_s=lambda _job: 1.0)
    await set_processor(fleet, processor())
    _, heard = await listen(fleet)
    sender = fleet.start_client("sender")
    await send(fleet, sender, b"1", b"2")
    await fleet.sleep(0.2)
    await fleet.crash_agent("b0")
    fleet.start_agent("b0")
    await fleet.sleep(2.0)
    await fleet.stop_client("sender")
    result = await finish(fleet)
    assert heard == []
    assert result.honest, result.counts()
    assert len(result.covered) == 2


@in_virtual_time
async def test_what_finds_the_queue_full_is_a_gap_also_of_a_publisher_nobody_knew(finish: Finish) -> None:
    fleet = await start(takes_s=lambda _job: 0.5)
    await set_processor(fleet, processor(queue=3))
    reports: list[Gap | Discontinuity] = []
    heard: list[bytes] = []
    await fleet.start_client("watcher").client.subscribe(
        "t", lambda message: heard.append(message.payload), on_report=reports.append
    )
    busy, other = fleet.start_client("busy"), fleet.start_client("other")
    await send(fleet, busy, *numbered(1, 4))  # one in hand, three wait
    await fleet.sleep(0.05)
    await send(fleet, other, b"x", b"y")
    await fleet.sleep(5.0)
    await send(fleet, other, b"z")
    result = await finish(fleet)
    assert heard == [*numbered(1, 4), b"z"]
    assert [(each.first, each.last) for each in reports if isinstance(each, Gap)] == [(1, 1), (2, 2)]
    (counted,) = fleet.agents["b0"].machine.processing()
    assert (counted.processed, counted.dropped) == (5, 2)
    assert result.honest


@in_virtual_time
async def test_publishers_wait_when_the_queue_is_full_and_blocks(finish: Finish) -> None:
    fleet = await start(takes_s=lambda _job: 0.2)
    await set_processor(fleet, processor(queue=5, when_full=WhenFull.BLOCK))
    _, heard = await listen(fleet)
    sender = fleet.start_client("sender")
    begun_s = fleet.now
    for each in numbered(1, 40):
        await send(fleet, sender, each)
        await fleet.sleep(0.02)
    assert fleet.now - begun_s > 5.0
    result = await finish(fleet)
    assert heard == numbered(1, 40)
    assert result.clean, result.counts()
    assert fleet.agents["b0"].machine.processing()[0].dropped == 0


@in_virtual_time
async def test_who_waited_for_too_long_is_left_out_and_told_of(finish: Finish) -> None:
    fleet = await start(takes_s=lambda _job: 1.0)
    await set_processor(fleet, processor(limit_ms=2000))
    _, heard = await listen(fleet)
    await send(fleet, fleet.start_client("sender"), *numbered(1, 10))
    result = await finish(fleet)
    assert heard == numbered(1, 4)  # a message waits for half a lease at most: 3 s
    assert (len(result.covered), result.gaps, result.honest) == (6, 6, True)


@in_virtual_time
async def test_a_persistent_topic_is_not_processed_and_a_processor_is_taken_away_once() -> None:
    fleet = await start()
    leader = fleet.leader
    assert leader is not None
    with pytest.raises(MoveRefused, match="has no processor"):
        await leader.processors.carry_out(_order(None))
    assert await leader.processors.carry_out(_order(processor())) == 1
    assert await leader.processors.carry_out(_order(processor())) == 1
    assert await leader.processors.carry_out(_order(None)) == 2


def _order(made: Processor | None) -> ProcessOrder:
    return ProcessOrder("me", 1, "t", made)


PROCESSED = Scale(topics=6, clients=15, run_s=12.0, processed=True)


@pytest.mark.parametrize("seed", [20])
def test_while_processors_come_and_go_and_topics_move_nothing_is_lost_or_reported(seed: int) -> None:
    result = check(run_seed(seed, faults=False, scale=PROCESSED), grace_s=grace_s(False))
    assert result.delivered > 100
    assert result.clean, result.counts()


@pytest.mark.parametrize("seed", [20])
def test_with_faults_what_is_missing_of_processed_topics_lies_in_a_report(seed: int) -> None:
    result = check(run_seed(seed, faults=True, scale=PROCESSED), grace_s=grace_s(True))
    assert result.delivered > 100
    assert result.honest, result.counts()


# What policies see of it, and do


@in_virtual_time
async def test_a_topic_that_becomes_slower_is_seen_so_and_moved_within_three_intervals(finish: Finish) -> None:
    takes_s = {"a": 0.01, "b": 0.02}
    network = Network(random.Random(1), wire=Wire(delay_s=0.002), store_delay_s=0.002)
    fleet = Deployment(
        network,
        ("b0", "b1"),
        timing=TIMING,
        rng=random.Random(2),
        surveyed=True,
        takes_s=lambda job: takes_s[job.topic],
    )
    for broker in ("b0", "b1"):
        fleet.start_agent(broker)
    leader = fleet.start_coordinator("c0", LoopSettings(policy="ktcp-ffd", every_s=EVERY_S))
    await fleet.sleep(3.0)
    receiver, senders = fleet.start_client("receiver"), [fleet.start_client(f"sender-{topic}") for topic in takes_s]
    for topic in takes_s:
        await set_processor(fleet, processor(), topic=topic)
        await fleet.subscribe(receiver, topic)
        await leader.promises.carry_out(PromiseOrder("me", 1, topic, "p90:230ms"))
    crew = Crew()
    for topic, sender in zip(takes_s, senders, strict=True):
        crew.start(_publish_often(fleet, sender, topic), f"publisher of {topic}")
    await fleet.sleep(3 * EVERY_S)
    seen = leader.snapshot(None)
    assert seen.processing is not None
    assert seen.processing.interval_ms.tolist() == pytest.approx([10.0, 20.0])
    assert seen.processing.bound_ms.tolist() == [230.0, 230.0]
    assert all(10.0 < each < 60.0 for each in seen.processing.p90_ms.tolist())
    assert {leader.moves[topic].record.newest.brokers for topic in takes_s} == {("b0",)}
    takes_s["a"] = 0.05
    await fleet.sleep(3 * EVERY_S)
    assert len({leader.moves[topic].record.newest.brokers for topic in takes_s}) == 2
    await crew.close()
    result = await finish(fleet)
    assert result.clean, result.counts()


async def _publish_often(fleet: Deployment, sender: SimClient, topic: str) -> None:
    while True:
        await fleet.publish(sender, topic, b"x")
        await sender.process.clock.sleep(0.1)
