"""What the contract of a Store leaves open, as the memory store does it: outages in the middle, pauses, clocks."""

import asyncio
from contextlib import aclosing

import pytest

from nearcast.domain.errors import StoreDown
from nearcast.sim.clock import SimClock, Skew
from nearcast.sim.loop import in_virtual_time
from nearcast.store.memory import MemoryStore, MemoryStoreHandle
from nearcast.store.store import ABSENT, Entry


async def collect(handle: MemoryStoreHandle, seen: list[bytes | None]) -> None:
    async with aclosing(handle.watch("")) as changes:
        async for entry in changes:
            seen.append(entry.value)  # noqa: PERF401  # Looked at while it grows.


@in_virtual_time
async def test_every_operation_takes_the_way_there_and_back() -> None:
    handle = MemoryStore(SimClock(), delay_s=0.5).handle(SimClock())
    await handle.put("k", b"1", ABSENT)
    assert asyncio.get_running_loop().time() == 1.0


@in_virtual_time
async def test_a_write_whose_answer_is_lost_raises_and_is_done_all_the_same() -> None:
    store = MemoryStore(SimClock(), delay_s=1.0)
    handle = store.handle(SimClock())
    writing = asyncio.create_task(handle.put("k", b"1", ABSENT))
    await asyncio.sleep(1.5)
    store.down = True
    with pytest.raises(StoreDown, match="it may have been done"):
        await writing
    store.down = False
    assert await handle.get("k") == Entry("k", b"1", 1)


@in_virtual_time
async def test_a_write_that_does_not_get_there_is_not_done() -> None:
    store = MemoryStore(SimClock(), delay_s=1.0)
    handle = store.handle(SimClock())
    writing = asyncio.create_task(handle.put("k", b"1", ABSENT))
    await asyncio.sleep(0.5)
    store.down = True
    with pytest.raises(StoreDown, match="nothing was done"):
        await writing
    store.down = False
    assert await handle.get("k") is None


@in_virtual_time
async def test_a_process_can_be_cut_off_alone_and_learns_afterwards_what_others_wrote() -> None:
    store = MemoryStore(SimClock())
    cut_off, other = store.handle(SimClock()), store.handle(SimClock())
    seen: list[bytes | None] = []
    watching = asyncio.create_task(collect(cut_off, seen))
    await asyncio.sleep(1)
    cut_off.down = True
    with pytest.raises(StoreDown):
        await cut_off.get("k")
    first = await other.put("k", b"1", ABSENT)
    await other.delete("k", first)
    await other.put("k", b"2", ABSENT)
    await asyncio.sleep(1)
    assert seen == []
    cut_off.down = False
    await asyncio.sleep(1)
    assert seen == [b"1", None, b"2"]
    watching.cancel()


@in_virtual_time
async def test_a_paused_process_learns_of_changes_when_it_goes_on() -> None:
    store = MemoryStore(SimClock())
    clock = SimClock()
    seen: list[bytes | None] = []
    watching = asyncio.create_task(collect(store.handle(clock), seen))
    await asyncio.sleep(1)
    clock.pause()
    await store.handle(SimClock()).put("k", b"1", ABSENT)
    await asyncio.sleep(10)
    assert seen == []
    clock.resume()
    await asyncio.sleep(1)
    assert seen == [b"1"]
    watching.cancel()


@in_virtual_time
async def test_changes_stay_in_order_when_the_store_becomes_faster() -> None:
    store = MemoryStore(SimClock(), delay_s=1.0)
    handle = store.handle(SimClock())
    seen: list[bytes | None] = []
    watching = asyncio.create_task(collect(handle, seen))
    await asyncio.sleep(5)
    store.put("k", b"1", ABSENT)
    store.delay_s = 0.1
    store.put("k", b"2", 1)
    await asyncio.sleep(5)
    assert seen == [b"1", b"2"]
    watching.cancel()


@in_virtual_time
async def test_a_lease_lasts_by_the_clock_of_the_store_not_by_that_of_its_holder() -> None:
    store = MemoryStore(SimClock())
    holder = store.handle(SimClock(Skew(now_origin_s=1e6, now_drift=0.5)))
    other = store.handle(SimClock(Skew(now_drift=-0.5)))
    assert await holder.acquire("leader", "holder", 10.0) == 1
    await asyncio.sleep(9.9)
    assert await other.acquire("leader", "other", 10.0) is None
    await asyncio.sleep(0.1)
    assert await other.acquire("leader", "other", 10.0) == 2


@in_virtual_time
async def test_a_watch_that_has_ended_is_forgotten() -> None:
    handle = MemoryStore(SimClock()).handle(SimClock())
    watching = asyncio.create_task(collect(handle, []))
    await asyncio.sleep(1)
    assert len(handle._watches) == 1
    watching.cancel()
    await asyncio.wait([watching])
    assert not handle._watches
