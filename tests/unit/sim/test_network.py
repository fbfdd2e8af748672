import asyncio
import random
from collections.abc import Callable

import pytest

from nearcast.brokers.link import Link
from nearcast.brokers.memory import Wire
from nearcast.brokers.memory_server import ServerCosts
from nearcast.domain.errors import LinkDown, StoreDown
from nearcast.sim.clock import Skew
from nearcast.sim.loop import in_virtual_time, run_virtual
from nearcast.sim.network import STORE, Network, Process


class Watched:
    """A process with one link, one subscription, and all that it was told."""

    def __init__(self, process: Process, link: Link, got: list[bytes], states: list[bool]) -> None:
        self.process = process
        self.link = link
        self.got = got
        self.states = states

    @classmethod
    async def start(cls, network: Network, name: str, broker: str = "b1") -> "Watched":
        process = network.start_process(name)
        got: list[bytes] = []
        states: list[bool] = []
        link = await process.connect(broker, states.append)
        await link.subscribe("t", got.append)
        return cls(process, link, got, states)


def small_network(wire: Wire | None = None) -> Network:
    network = Network(random.Random(1), wire=wire)
    network.add_broker("b1")
    network.add_broker("b2")
    return network


@in_virtual_time
async def test_a_cut_breaks_one_connection_which_comes_back() -> None:
    network = small_network()
    one, other = await Watched.start(network, "one"), await Watched.start(network, "other")
    network.cut("one", "b1")
    await asyncio.sleep(5)
    assert (one.states, other.states) == ([False, True], [])
    other.link.publish("t", b"1")
    await asyncio.sleep(1)
    assert one.got == [b"1"]


@in_virtual_time
async def test_a_refusal_lasts_until_it_is_healed() -> None:
    network = small_network()
    one = await Watched.start(network, "one")
    network.refuse("one", "b1")
    await asyncio.sleep(30)
    assert one.states == [False]
    assert not network.reaches("one", "b1")
    assert network.reaches("one", "b2")
    network.heal()
    await asyncio.sleep(5)
    assert one.states == [False, True]


@in_virtual_time
async def test_a_partition_parts_groups_and_leaves_the_others_alone() -> None:
    network = small_network()
    inside = await Watched.start(network, "inside", "b1")
    outside = await Watched.start(network, "outside", "b1")
    neutral = await Watched.start(network, "neutral", "b1")
    network.partition([["b1", "inside"], ["b2", "outside"]])
    await asyncio.sleep(10)
    assert (inside.states, outside.states, neutral.states) == ([], [False], [])
    with pytest.raises(LinkDown, match="inside cannot reach broker 'b2' now"):
        await inside.process.connect("b2", lambda _: None)
    assert (await outside.process.connect("b2", lambda _: None)).up
    network.heal()
    await asyncio.sleep(5)
    assert outside.states == [False, True]


@in_virtual_time
async def test_a_partition_takes_the_store_away_and_gives_it_back() -> None:
    network = small_network()
    one, other = network.start_process("one"), network.start_process("other")
    network.partition([["one"], ["other", STORE]])
    with pytest.raises(StoreDown):
        await one.store.get("k")
    assert await other.store.put("k", b"v", 0) == 1
    started_inside = network.start_process("late")
    assert await started_inside.store.get("k") is not None
    network.heal()
    assert await one.store.get("k") is not None
    network.refuse("one", STORE)
    with pytest.raises(StoreDown):
        await one.store.get("k")


@pytest.mark.parametrize(
    ("groups", "complaint"),
    [
        ([["b1"], ["b1", "b2"]], "'b1' is in two groups"),
        ([["b1"], ["b9"]], "'b9' is neither a broker nor a process"),
    ],
)
def test_an_impossible_partition_is_refused(groups: list[list[str]], complaint: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ValueError, match=complaint):
            small_network().partition(groups)

    run_virtual(scenario(), seed=1)


@in_virtual_time
async def test_a_restarted_broker_knows_nobody_until_they_return() -> None:
    network = small_network()
    watched = [await Watched.start(network, f"p{number}") for number in range(5)]
    network.crash_broker("b1")
    await asyncio.sleep(10)
    assert all(one.states == [False] for one in watched)
    network.restart_broker("b1")
    assert network.brokers["b1"].subscribers("t") == 0
    await asyncio.sleep(10)
    assert all(one.states == [False, True] for one in watched)
    assert network.brokers["b1"].subscribers("t") == 5


@in_virtual_time
async def test_a_paused_broker_keeps_its_connections() -> None:
    network = small_network()
    one = await Watched.start(network, "one")
    network.pause_broker("b1")
    one.link.publish("t", b"1")
    await asyncio.sleep(30)
    assert (one.got, one.states) == ([], [])
    network.resume_broker("b1")
    await asyncio.sleep(1)
    assert (one.got, one.states) == ([b"1"], [])


@in_virtual_time
async def test_a_paused_process_receives_sends_and_does_nothing() -> None:
    network = small_network(Wire(delay_s=0.1))
    paused, other = await Watched.start(network, "paused"), await Watched.start(network, "other")
    ticked: list[float] = []
    paused.process.clock.call_later(1, lambda: ticked.append(paused.process.clock.now()))
    network.pause_process("paused")
    other.link.publish("t", b"to it")
    paused.link.publish("t", b"from it")
    await asyncio.sleep(20)
    assert (paused.got, other.got, ticked) == ([], [b"to it"], [])
    network.resume_process("paused")
    await asyncio.sleep(1)
    assert paused.got == [b"to it", b"from it"]
    assert other.got == [b"to it", b"from it"]
    assert ticked == [pytest.approx(20.8, abs=0.5)]
    assert paused.states == []


@in_virtual_time
async def test_a_paused_process_connects_when_it_goes_on() -> None:
    network = small_network()
    paused = network.start_process("paused")
    network.pause_process("paused")
    connecting = asyncio.create_task(_connect(paused))
    await asyncio.sleep(1)
    assert not connecting.done()
    network.resume_process("paused")
    assert (await connecting).up


async def _connect(process: Process) -> Link:
    return await process.connect("b1", lambda _: None)


@in_virtual_time
async def test_a_paused_process_learns_of_a_break_when_it_goes_on() -> None:
    network = small_network()
    paused = await Watched.start(network, "paused")
    network.pause_process("paused")
    network.cut("paused", "b1")
    await asyncio.sleep(20)
    assert paused.states == []
    assert paused.link.up
    network.resume_process("paused")
    await asyncio.sleep(5)
    assert paused.states == [False, True]


@in_virtual_time
async def test_a_paused_process_that_is_sent_too_much_is_a_slow_consumer() -> None:
    network = Network(random.Random(1), costs=ServerCosts(buffer_bytes=10_000))
    network.add_broker("b1")
    paused, other = await Watched.start(network, "paused"), await Watched.start(network, "other")
    network.pause_process("paused")
    for _ in range(20):
        other.link.publish("t", bytes(1_000))
    await asyncio.sleep(5)
    network.resume_process("paused")
    await asyncio.sleep(5)
    assert (paused.got, paused.states) == ([], [False, True])
    assert len(other.got) == 20


def test_whether_timers_or_messages_come_first_after_a_pause_is_left_to_chance() -> None:
    async def scenario(seed: int) -> str:
        network = Network(random.Random(seed))
        network.add_broker("b1")
        paused, other = await Watched.start(network, "paused"), await Watched.start(network, "other")
        first: list[str] = []
        await paused.link.unsubscribe("t")
        await paused.link.subscribe("t", lambda _: first.append("message"))
        paused.process.clock.call_later(1, first.append, "timer")
        network.pause_process("paused")
        other.link.publish("t", b"1")
        await asyncio.sleep(5)
        network.resume_process("paused")
        await asyncio.sleep(5)
        assert sorted(first) == ["message", "timer"]
        return first[0]

    assert {run_virtual(scenario(seed), seed=seed) for seed in range(20)} == {"message", "timer"}


@in_virtual_time
async def test_a_crashed_process_is_gone_without_a_goodbye() -> None:
    network = small_network(Wire(delay_s=0.1))
    crashed, other = await Watched.start(network, "crashed"), await Watched.start(network, "other")
    ticked: list[int] = []
    crashed.process.clock.call_later(1, ticked.append, 1)
    other.link.publish("t", b"on its way")
    await asyncio.sleep(0.15)
    network.crash_process("crashed")
    crashed.link.publish("t", b"from the dead")
    await asyncio.sleep(30)
    assert (crashed.got, crashed.states, ticked) == ([], [], [])
    assert other.got == [b"on its way"]
    assert network.brokers["b1"].subscribers("t") == 1
    with pytest.raises(LinkDown, match="crashed has crashed"):
        await crashed.process.connect("b1", lambda _: None)
    with pytest.raises(StoreDown):
        await crashed.process.store.get("k")


@in_virtual_time
async def test_a_process_can_be_started_again_after_a_crash_and_not_before() -> None:
    network = small_network()
    await Watched.start(network, "p")
    with pytest.raises(ValueError, match="the name 'p' is taken"):
        network.start_process("p")
    network.crash_process("p")
    again = await Watched.start(network, "p")
    again.link.publish("t", b"1")
    await asyncio.sleep(1)
    assert again.got == [b"1"]


@in_virtual_time
async def test_wires_are_found_by_pair_then_by_site_and_can_change_under_way() -> None:
    network = Network(random.Random(1), wire=Wire(delay_s=1.0))
    network.add_broker("b1", site="east")
    process = network.start_process("p", site="west")
    assert network.wire("p", "b1") == Wire(delay_s=1.0)
    network.set_wire("west", "east", Wire(delay_s=0.5))
    assert network.wire("p", "b1") == Wire(delay_s=0.5)
    link = await process.connect("b1", lambda _: None)
    assert asyncio.get_running_loop().time() == 1.0
    network.set_wire("p", "b1", Wire(delay_s=0.25))
    await link.flush()
    assert asyncio.get_running_loop().time() == 1.5


@in_virtual_time
async def test_a_connector_belongs_to_a_process_that_is_started_when_first_asked_for() -> None:
    network = small_network()
    connect = network.connector("p", site="east")
    assert network.processes["p"].site == "east"
    assert network.connector("p") is connect


async def turmoil(seed: int) -> list[tuple[float, str, bytes | bool]]:
    """Everything at once; what each process was told, and when."""
    rng = random.Random(seed)
    network = Network(
        rng, wire=Wire(0.01, 0.02, 1e5), costs=ServerCosts(1e-5, 1e-4, 1.0, buffer_bytes=5_000), store_delay_s=0.01
    )
    for name in ("b1", "b2"):
        network.add_broker(name)
    loop = asyncio.get_running_loop()
    trace: list[tuple[float, str, bytes | bool]] = []
    links: list[Link] = []
    for number in range(8):
        name = f"p{number}"
        process = network.start_process(name, skew=Skew(now_origin_s=rng.random(), now_drift=rng.uniform(-1e-3, 1e-3)))

        def note(what: bytes | bool, name: str = name) -> None:
            trace.append((loop.time(), name, what))

        for broker in ("b1", "b2"):
            link = await process.connect(broker, note)
            await link.subscribe("t", note)
            links.append(link)
    faults: list[Callable[[], None]] = [
        lambda: network.cut(f"p{rng.randrange(8)}", "b1"),
        lambda: network.partition([["b1", "p1", "p2"], ["b2", "p3"]]),
        network.heal,
        lambda: network.crash_broker("b2"),
        lambda: network.restart_broker("b2"),
        lambda: network.pause_process("p4"),
        lambda: network.resume_process("p4"),
        lambda: network.set_wire("p5", "b1", Wire(0.1, 0.1)),
        lambda: network.pause_broker("b1"),
        lambda: network.resume_broker("b1"),
    ]
    for step in range(300):
        link = rng.choice(links)
        if link.up:
            link.publish("t", str(step).encode())
        if step % 10 == 0:
            rng.choice(faults)()
        await asyncio.sleep(rng.uniform(0, 0.05))
    network.heal()
    network.restart_broker("b2")
    network.resume_broker("b1")
    network.resume_process("p4")
    await asyncio.sleep(20)
    assert all(link.up for link in links)
    return trace


def test_a_seed_decides_everything() -> None:
    first = run_virtual(turmoil(7), seed=7)
    assert len(first) > 1_000
    assert run_virtual(turmoil(7), seed=7) == first
    assert run_virtual(turmoil(8), seed=8) != first


def test_every_link_comes_back_after_any_turmoil() -> None:
    for seed in range(30):
        run_virtual(turmoil(seed), seed=seed)
