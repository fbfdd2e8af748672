"""A coordinator and a store whose answers are late, lost, or come after the coordinator has given up on them."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from nearcast.coordinator import Coordinator
from nearcast.coordinator.records import Records
from nearcast.domain.errors import Conflict, LeaseLost, StoreDown
from nearcast.domain.record import TopicRecord
from nearcast.domain.ring import Ring
from nearcast.domain.route import Strategy
from nearcast.sim.deployment import Deployment
from nearcast.sim.loop import in_virtual_time
from nearcast.store.memory import MemoryStoreHandle
from nearcast.store.store import ABSENT, Entry
from nearcast.wire.dialect import Dialect

StartFleet = Callable[..., Awaitable[Deployment]]
LEASE_S = 6.0


class Troubled(MemoryStoreHandle):
    """The store as one process reaches it, and what goes wrong on the way."""

    def __init__(self, handle: MemoryStoreHandle) -> None:
        super().__init__(handle._store, handle._clock)
        handle._store._handles.append(self)
        self.refuses_leases = False
        self.late_leases_s = 0.0  # the answer comes so much later
        self.late_puts_s = 0.0
        self.holds_puts: asyncio.Event | None = None  # they arrive once it is set, and are answered then
        self.loses_answers = False
        self.gives_up_puts: list[tuple[str, bytes, int]] | None = None  # StoreDown at once; they arrive with `land`
        self.lands_after_get = False
        self.puts: list[Entry] = []  # all that were done, by whomever

    async def put(self, key: str, value: bytes, expected: int) -> int:
        if self.gives_up_puts is not None:
            self.gives_up_puts.append((key, value, expected))
            raise StoreDown("put: it may yet be done")
        if self.holds_puts is not None:
            await self.holds_puts.wait()
        revision = await super().put(key, value, expected)
        if self.late_puts_s:
            await self._clock.sleep(self.late_puts_s)
        if self.loses_answers:
            raise StoreDown("put: the answer was lost")
        return revision

    async def get(self, key: str) -> Entry | None:
        entry = await super().get(key)
        if self.lands_after_get and self.gives_up_puts is not None:
            assert self.land()[0]
        return entry

    async def acquire(self, key: str, owner: str, ttl_s: float) -> int | None:
        if self.refuses_leases:
            raise StoreDown("acquire: refused")
        term = await super().acquire(key, owner, ttl_s)
        if self.late_leases_s:
            await self._clock.sleep(self.late_leases_s)
        return term

    def land(self) -> list[bool]:
        """What was given up arrives at the store; whether each was done."""
        assert self.gives_up_puts is not None
        late, self.gives_up_puts = self.gives_up_puts, None
        return [self._lands(*put) for put in late]

    def _lands(self, key: str, value: bytes, expected: int) -> bool:
        try:
            self._store.put(key, value, expected)
        except Conflict:
            return False
        return True

    def tell(self, entry: Entry) -> None:
        self.puts.append(entry)
        super().tell(entry)


async def trouble(fleet: Deployment, name: str = "c0") -> tuple[Coordinator, Troubled]:
    """Start a coordinator with such a store, and give it the time to lead."""
    process = fleet._process(name)
    store = Troubled(process.store)
    object.__setattr__(process, "store", store)
    coordinator = Coordinator(
        name,
        process.connect,
        store,
        fleet.ring,
        bus="bus",
        dialect=Dialect(b"virtual"),
        clock=process.clock,
        timing=fleet._timing,
    )
    fleet.coordinators[name] = coordinator
    coordinator.start()
    await fleet.sleep(3.0)
    return coordinator, store


async def until(fleet: Deployment, reached: Callable[[], bool], deadline_s: float = 60.0) -> None:
    until_s = fleet.now + deadline_s
    while not reached():
        assert fleet.now < until_s, f"not reached within {deadline_s} s"
        await fleet.sleep(0.01)


def written(store: Troubled, topic: str) -> list[TopicRecord]:
    """All that was ever written of a topic."""
    values = [entry.value for entry in store.puts if entry.key == f"topic/{topic}" and entry.value is not None]
    return [msgspec.json.decode(value, type=TopicRecord) for value in values]


async def stored_ring(store: Troubled) -> Ring | None:
    return await Records(store).load_ring()


# Topics


@in_virtual_time
async def test_writes_whose_answers_are_lost_are_recognised_as_our_own(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=())
    coordinator, store = await trouble(fleet)
    store.loses_answers = True
    term = coordinator.term
    assert term is not None
    moving = asyncio.create_task(coordinator.move("t", Strategy.SINGLE, ("b1",)))
    await until(fleet, lambda: coordinator.moves["t"].finished if moving.done() else False)
    assert await moving == 1
    assert coordinator.term == term
    phases = [record.phase for record in written(store, "t")]
    assert phases == ["preparing", "told", "done"], "each was written once"


@in_virtual_time
async def test_a_lease_that_lapsed_for_a_moment_leaves_no_move_stuck(start_fleet: StartFleet) -> None:
    """A renewal is answered so late that the lease was out meanwhile, on our clock only; the term stays the same.

    Just then a record was written, and nothing done about it.
    """
    fleet = await start_fleet(coordinators=())
    coordinator, store = await trouble(fleet)
    term = coordinator.term
    store.late_leases_s = 3.5
    await until(fleet, lambda: not coordinator.leading)
    await until(fleet, lambda: coordinator.leading)
    await fleet.sleep(coordinator._lead_until_s - fleet.now - 0.03)
    store.late_puts_s = 0.05
    coordinator.begin("t", Strategy.SINGLE, ("b1",))
    await until(fleet, lambda: not coordinator.leading)
    store.late_puts_s = 0.0
    await until(fleet, lambda: coordinator.leading)
    store.late_leases_s = 0.0
    await until(fleet, lambda: coordinator.moves["t"].finished if coordinator.leading else False)
    assert coordinator.term == term, "nobody else has led, and the store knows it"
    assert coordinator.moves["t"].record.newest.brokers == ("b1",)


async def lose_the_lease(fleet: Deployment, coordinator: Coordinator, store: Troubled) -> None:
    """And get it back, with the next term."""
    before = coordinator.term
    store.refuses_leases = True
    await until(fleet, lambda: not coordinator.leading)
    await fleet.sleep(1.0)
    store.refuses_leases = False
    await until(fleet, lambda: coordinator.leading and coordinator.term != before)


@in_virtual_time
async def test_a_write_of_an_earlier_term_that_arrives_late_is_not_overwritten_unread(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=())
    coordinator, store = await trouble(fleet)
    store.holds_puts = asyncio.Event()
    coordinator.begin("t", Strategy.SINGLE, ("b1",))
    await fleet.sleep(0.1)
    late, store.holds_puts = store.holds_puts, None
    await lose_the_lease(fleet, coordinator, store)
    late.set()
    await fleet.sleep(0.1)
    assert [record.newest.brokers for record in written(store, "t")] == [("b1",)]
    with pytest.raises(LeaseLost):
        await coordinator.move("t", Strategy.SINGLE, ("b2",))
    await until(fleet, lambda: "t" in coordinator.moves and coordinator.moves["t"].finished)
    epoch_1 = {record.newest.brokers for record in written(store, "t") if record.newest.epoch == 1}
    assert epoch_1 == {("b1",)}, "one owner per epoch"


@in_virtual_time
async def test_a_write_of_an_earlier_term_that_is_refused_late_does_not_end_the_term_now(
    start_fleet: StartFleet,
) -> None:
    fleet = await start_fleet(coordinators=())
    coordinator, store = await trouble(fleet)
    store.holds_puts = asyncio.Event()
    coordinator.begin("t", Strategy.SINGLE, ("b1",))
    await fleet.sleep(0.1)
    late, store.holds_puts = store.holds_puts, None
    await lose_the_lease(fleet, coordinator, store)
    assert await coordinator.move("t", Strategy.SINGLE, ("b2",)) == 1
    moves = coordinator.moves
    late.set()
    await fleet.sleep(0.1)
    assert coordinator.leading
    assert coordinator.moves is moves


# The ring


@in_virtual_time
async def test_a_ring_whose_answer_is_lost_is_changed_all_the_same(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=())
    coordinator, store = await trouble(fleet)
    store.loses_answers = True
    await coordinator.change_ring(("b1", "b2"))
    assert coordinator.ring.brokers == ("b1", "b2")
    assert await stored_ring(store) == coordinator.ring


@in_virtual_time
async def test_a_ring_change_that_is_given_up_cannot_come_true_under_the_next_leader(start_fleet: StartFleet) -> None:
    """It would go by the old ring, and whoever follows it by the new one, without a topic pinned."""
    fleet = await start_fleet(coordinators=())
    coordinator, store = await trouble(fleet)
    await fleet.sleep(2 * LEASE_S)  # the agents know who uses their topics
    changing = asyncio.create_task(coordinator.change_ring(("b1", "b2")))
    store.gives_up_puts = []
    store.refuses_leases = True
    await until(fleet, changing.done)
    with pytest.raises(LeaseLost):
        await changing
    second, _ = await trouble(fleet, "c1")
    await until(fleet, lambda: second.leading)
    assert not any(store.land())
    assert await stored_ring(store) in {None, second.ring}


@in_virtual_time
async def test_a_ring_change_does_not_go_on_in_a_later_term(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=())
    coordinator, store = await trouble(fleet)
    store.holds_puts = asyncio.Event()
    await fleet.sleep(2 * LEASE_S)  # the agents know who uses their topics
    changing = asyncio.create_task(coordinator.change_ring(("b1", "b2")))
    await fleet.sleep(1.0)
    late, store.holds_puts = store.holds_puts, None
    await lose_the_lease(fleet, coordinator, store)
    late.set()
    await until(fleet, changing.done, 5.0)
    with pytest.raises(LeaseLost):
        await changing
    assert coordinator.leading
    assert await stored_ring(store) == coordinator.ring == fleet.ring


@in_virtual_time
async def test_a_ring_that_arrives_while_the_next_leader_reads_is_read_again(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=())
    coordinator, store = await trouble(fleet)
    await fleet.sleep(2 * LEASE_S)  # the agents know who uses their topics
    changing = asyncio.create_task(coordinator.change_ring(("b1", "b2")))
    store.gives_up_puts = []
    store.refuses_leases = True
    await until(fleet, changing.done)
    with pytest.raises(LeaseLost):
        await changing
    store.lands_after_get = True
    store.refuses_leases = False
    await until(fleet, lambda: coordinator.leading)
    assert coordinator.term == 2, "it did not have to ask for the lease again"
    assert coordinator.ring.brokers == ("b1", "b2")
    assert await stored_ring(store) == coordinator.ring


@in_virtual_time
async def test_a_leader_that_is_replaced_while_it_writes_the_ring_says_so(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=())
    coordinator, store = await trouble(fleet)
    second, _ = await trouble(fleet, "c1")
    store.late_puts_s = 3 * LEASE_S
    await fleet.sleep(2 * LEASE_S)  # the agents know who uses their topics
    changing = asyncio.create_task(coordinator.change_ring(("b1", "b2")))
    await fleet.sleep(1.0)
    store.refuses_leases = True
    await until(fleet, lambda: second.leading)
    store.refuses_leases = False
    await until(fleet, changing.done)
    with pytest.raises(LeaseLost):
        await changing
    assert second.ring.brokers == ("b1", "b2"), "it was written before"


# What is in the store


@in_virtual_time
async def test_who_cannot_read_the_records_does_not_lead_and_does_when_they_are_mended(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=())
    bad = fleet.network.store.put("topic/t", b"{", ABSENT)
    coordinator, store = await trouble(fleet)
    await fleet.sleep(3 * LEASE_S)
    assert not coordinator.leading
    other = fleet.network.start_process("other").store
    term = await other.acquire("leader", "other", 0.01)
    assert term is not None, "one that can read them may lead"
    await store.delete("topic/t", bad)
    await until(fleet, lambda: coordinator.leading)
