"""What every Store promises when it is stopped, frozen or cut off, over every adapter (see conftest)."""

import asyncio
from collections.abc import Awaitable

import pytest

from nearcast.domain.errors import StoreDown
from nearcast.store.store import ABSENT, Entry, Store
from tests.contract.store_stages import Run, StoreStage, observe, until


async def refused(attempt: Awaitable[object]) -> None:
    """Within a time that a coordinator can plan with."""
    async with asyncio.timeout(5):
        with pytest.raises(StoreDown):
            await attempt


async def back(store: Store) -> None:
    """Ask until the store answers."""
    async with asyncio.timeout(30):
        while True:
            try:
                await store.get("k")
            except StoreDown:
                await asyncio.sleep(0.02)
            else:
                return


def test_while_the_store_is_away_everything_says_so(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = await stage.store("one")
        revision = await store.put("k", b"1", ABSENT)
        await stage.stop_store()
        attempts: list[Awaitable[object]] = [
            store.get("k"),
            store.put("k", b"2", revision),
            store.delete("k", revision),
            store.list(""),
            store.acquire("lease", "one", 10.0),
            store.release("lease", "one"),
            observe(store, "", [], b"end"),
        ]
        await asyncio.gather(*(refused(attempt) for attempt in attempts))
        await stage.start_store()
        assert await store.get("k") == Entry("k", b"1", revision)

    on_stores(scenario)


def test_a_frozen_store_says_so_and_goes_on_when_it_is_thawed(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store, other = await stage.store("one"), await stage.store("other")
        revision = await store.put("k", b"1", ABSENT)
        await stage.freeze_store()
        attempts = [store.get("k"), store.put("k", b"2", revision), store.list(""), observe(store, "", [], b"end")]
        await asyncio.gather(*(refused(attempt) for attempt in attempts))
        await refused(store.acquire("lease", "one", 10.0))
        await stage.thaw_store()
        await asyncio.gather(back(store), back(other))
        entry = await other.get("k")
        assert entry is not None
        assert entry == Entry("k", b"1", revision) or (entry.value == b"2" and entry.revision > revision)
        assert await store.put("k", b"3", entry.revision) > entry.revision
        assert await store.acquire("lease", "one", 10.0) is not None

    on_stores(scenario)


def test_what_was_acknowledged_is_there_after_a_crash(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = await stage.store("one")
        revision = ABSENT
        for number in range(5):
            revision = await store.put("k", str(number).encode(), revision)
            lease = await store.acquire("leader", "one", 30.0)
            await stage.stop_store()
            await stage.start_store()
            await back(store)
            assert await store.get("k") == Entry("k", str(number).encode(), revision)
            assert await store.acquire("leader", "one", 30.0) == lease

    on_stores(scenario)


def test_a_watch_outlasts_an_outage(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer, watcher = await stage.store("writer"), await stage.store("watcher")
        seen: list[Entry] = []
        observing = asyncio.create_task(observe(watcher, "w.", seen, b"end"))
        await writer.put("w.1", b"1", ABSENT)
        await until(lambda: len(seen) == 1)
        await writer.put("w.2", b"2", ABSENT)
        await stage.stop_store()
        await asyncio.sleep(0.1)
        await stage.start_store()
        await back(writer)
        await writer.put("w.3", b"end", ABSENT)
        await observing
        assert [entry.value for entry in seen] == [b"1", b"2", b"end"]

    on_stores(scenario)


def test_a_watch_outlasts_a_store_that_is_frozen(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer, watcher = await stage.store("writer"), await stage.store("watcher")
        seen: list[Entry] = []
        observing = asyncio.create_task(observe(watcher, "w.", seen, b"end"))
        await writer.put("w.1", b"1", ABSENT)
        await until(lambda: len(seen) == 1)
        await stage.freeze_store()
        await refused(writer.get("w.1"))
        await refused(writer.get("w.1"))
        await stage.thaw_store()
        await back(writer)
        await writer.put("w.2", b"end", ABSENT)
        await observing
        assert [entry.value for entry in seen] == [b"1", b"end"]

    on_stores(scenario)


def test_a_watcher_that_is_cut_off_learns_how_everything_is_in_the_end(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer, watcher = await stage.store("writer"), await stage.store("watcher")
        revisions = {f"w.{number}": await writer.put(f"w.{number}", b"0", ABSENT) for number in range(10)}
        seen: list[Entry] = []
        observing = asyncio.create_task(observe(watcher, "w.", seen, b"end"))
        await until(lambda: len(seen) == 10)
        await stage.cut_off("watcher")
        for number in range(100):
            key = f"w.{number % 9}"  # the tenth stays as it is
            revisions[key] = await writer.put(key, str(number).encode(), revisions[key])
        await writer.delete("w.0", revisions["w.0"])
        await writer.put("w.new", b"new", ABSENT)
        await refused(watcher.get("w.0"))
        assert len(seen) == 10
        await stage.reconnect("watcher")
        await writer.put("w.last", b"end", ABSENT)
        await observing
        known = {entry.key: entry for entry in seen}
        assert known["w.0"].value is None
        present = sorted((entry for entry in known.values() if entry.value is not None), key=lambda entry: entry.key)
        assert present == await writer.list("w.")
        told = [entry.revision for entry in seen[10:]]
        assert told == sorted(set(told)), "in order, and nothing twice"

    on_stores(scenario)


def test_a_lease_of_one_that_is_cut_off_goes_to_another(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        one, other = await stage.store("one"), await stage.store("other")
        first = await one.acquire("leader", "one", 0.5)
        await stage.cut_off("one")
        second = None
        async with asyncio.timeout(30):
            while second is None:
                second = await other.acquire("leader", "other", 30.0)
                await asyncio.sleep(0.02)
        await refused(one.acquire("leader", "one", 0.5))
        await stage.reconnect("one")
        await back(one)
        assert first is not None
        assert second > first
        assert await one.acquire("leader", "one", 0.5) is None
        await one.release("leader", "one")
        assert await other.acquire("leader", "other", 30.0) == second

    on_stores(scenario)
