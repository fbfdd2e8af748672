"""What every Store promises, over every adapter (see conftest)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

import pytest

from nearcast.domain.errors import Conflict, StoreDown
from nearcast.store.store import ABSENT, Entry, Store


class StoreStage(Protocol):
    """One store, and processes that use it."""

    def store(self, process: str) -> Store: ...
    async def stop_store(self) -> None: ...
    async def start_store(self) -> None: ...


Run = Callable[[Callable[[StoreStage], Awaitable[None]]], None]


async def observe(store: Store, prefix: str, seen: list[Entry], last: bytes) -> None:
    """Watch until a key gets the value `last`."""
    async with asyncio.timeout(30), aclosing(store.watch(prefix)) as changes:
        async for entry in changes:
            seen.append(entry)
            if entry.value == last:
                return


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # A state of another process has no event to wait for.
            await asyncio.sleep(0.005)


# Values


def test_a_value_written_by_one_process_is_read_by_another(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        one, other = stage.store("one"), stage.store("other")
        assert await other.get("k") is None
        revision = await one.put("k", b"\x00\xff", ABSENT)
        assert revision > ABSENT
        assert await other.get("k") == Entry("k", b"\x00\xff", revision)
        assert await other.put("k", b"", revision) > revision
        entry = await one.get("k")
        assert entry is not None
        assert entry.value == b""

    on_stores(scenario)


def test_a_write_at_another_revision_is_refused_and_writes_nothing(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = stage.store("one")
        first = await store.put("k", b"1", ABSENT)
        second = await store.put("k", b"2", first)
        for expected in (ABSENT, first, second + 100):
            with pytest.raises(Conflict, match="'k'"):
                await store.put("k", b"3", expected)
            with pytest.raises(Conflict, match="'k'"):
                await store.delete("k", expected)
        with pytest.raises(Conflict):
            await store.put("absent", b"3", first)
        assert await store.get("k") == Entry("k", b"2", second)
        assert await store.get("absent") is None

    on_stores(scenario)


def test_of_writers_that_race_exactly_one_wins(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        async def write(process: str, expected: int) -> str | None:
            try:
                await stage.store(process).put("k", process.encode(), expected)
            except Conflict:
                return None
            return process

        expected = ABSENT
        for _ in range(10):
            outcomes = await asyncio.gather(*(write(f"p{number}", expected) for number in range(5)))
            winners = [process for process in outcomes if process]
            assert len(winners) == 1
            entry = await stage.store("p0").get("k")
            assert entry is not None
            assert entry.value == winners[0].encode()
            expected = entry.revision

    on_stores(scenario)


def test_a_deleted_key_is_absent_and_its_revisions_go_on_rising(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = stage.store("one")
        first = await store.put("k", b"1", ABSENT)
        await store.delete("k", first)
        assert await store.get("k") is None
        assert await store.list("") == []
        with pytest.raises(Conflict):
            await store.put("k", b"2", first)
        assert await store.put("k", b"2", ABSENT) > first

    on_stores(scenario)


def test_a_list_has_all_keys_of_a_prefix_by_name(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = stage.store("one")
        for key in ("route.b", "route.a", "ring", "route.c"):
            await store.put(key, key.encode(), ABSENT)
        assert [entry.key for entry in await store.list("route.")] == ["route.a", "route.b", "route.c"]
        assert [entry.value for entry in await store.list("ring")] == [b"ring"]
        assert await store.list("x") == []

    on_stores(scenario)


# Watches


def test_a_watch_tells_what_is_there_and_then_what_changes(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer, watcher = stage.store("writer"), stage.store("watcher")
        b = await writer.put("w.b", b"1", ABSENT)
        a = await writer.put("w.a", b"2", ABSENT)
        await writer.put("other", b"3", ABSENT)
        seen: list[Entry] = []
        observing = asyncio.create_task(observe(watcher, "w.", seen, b"end"))
        await until(lambda: len(seen) == 2)
        b2 = await writer.put("w.b", b"4", b)
        await writer.put("other.too", b"5", ABSENT)
        await writer.delete("w.a", a)
        end = await writer.put("w.c", b"end", ABSENT)
        await observing
        assert seen[:3] == [Entry("w.a", b"2", a), Entry("w.b", b"1", b), Entry("w.b", b"4", b2)]
        deletion = seen[3]
        assert (deletion.key, deletion.value) == ("w.a", None)
        assert b2 < deletion.revision < end
        assert seen[4:] == [Entry("w.c", b"end", end)]

    on_stores(scenario)


def test_a_watcher_that_starts_among_writes_misses_nothing(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer = stage.store("writer")
        views: list[list[Entry]] = [[] for _ in range(8)]
        revisions: list[int] = []
        async with asyncio.TaskGroup() as group:
            revision = ABSENT
            for number in range(80):
                if number % 10 == 5:
                    watcher = stage.store(f"watcher {number}")
                    group.create_task(observe(watcher, "w.", views[number // 10], b"end"))
                revision = await writer.put("w.k", str(number).encode(), revision)
                revisions.append(revision)
                await asyncio.sleep(0.0005)
            revisions.append(await writer.put("w.k", b"end", revision))
        for view in views:
            seen = [entry.revision for entry in view]
            assert seen == revisions[-len(seen) :]
        assert len({len(view) for view in views}) == 8, "each began at another time"

    on_stores(scenario)


def test_a_watch_outlasts_an_outage(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer, watcher = stage.store("writer"), stage.store("watcher")
        seen: list[Entry] = []
        observing = asyncio.create_task(observe(watcher, "w.", seen, b"end"))
        revision = await writer.put("w.k", b"1", ABSENT)
        await until(lambda: len(seen) == 1)
        revision = await writer.put("w.k", b"2", revision)
        await stage.stop_store()
        await asyncio.sleep(0.1)
        await stage.start_store()
        await writer.put("w.k", b"end", revision)
        await observing
        assert [entry.value for entry in seen] == [b"1", b"2", b"end"]

    on_stores(scenario)


def test_while_the_store_is_away_everything_says_so(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = stage.store("one")
        revision = await store.put("k", b"1", ABSENT)
        await stage.stop_store()
        for attempt in (
            store.get("k"),
            store.put("k", b"2", revision),
            store.delete("k", revision),
            store.list(""),
            store.acquire("lease", "one", 10.0),
            store.release("lease", "one"),
            observe(store, "", [], b"end"),
        ):
            with pytest.raises(StoreDown):
                await attempt
        await stage.start_store()
        assert await store.get("k") == Entry("k", b"1", revision)

    on_stores(scenario)


# Leases


def test_a_lease_has_one_holder(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        processes = [f"p{number}" for number in range(5)]
        terms = await asyncio.gather(*(stage.store(process).acquire("leader", process, 30.0) for process in processes))
        assert len([term for term in terms if term is not None]) == 1
        assert await stage.store("p0").acquire("another lease", "p0", 30.0) is not None

    on_stores(scenario)


def test_a_lease_that_is_renewed_keeps_its_term_and_lasts_longer(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        one, other = stage.store("one"), stage.store("other")
        term = await one.acquire("leader", "one", 1.0)
        assert term is not None
        for _ in range(3):
            await asyncio.sleep(0.4)
            assert await one.acquire("leader", "one", 1.0) == term
            assert await other.acquire("leader", "other", 1.0) is None

    on_stores(scenario)


def test_a_lease_runs_out_and_the_term_rises(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        one, other = stage.store("one"), stage.store("other")
        terms = []
        for store, owner in ((one, "one"), (other, "other"), (one, "one"), (one, "one")):
            term = await store.acquire("leader", owner, 0.2)
            assert term is not None
            terms.append(term)
            await asyncio.sleep(0.3)
        assert terms == sorted(set(terms)), "also for an owner that let its lease run out and returns"

    on_stores(scenario)


def test_a_released_lease_is_free_at_once_and_the_term_rises(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        one, other = stage.store("one"), stage.store("other")
        first = await one.acquire("leader", "one", 30.0)
        assert first is not None
        await one.release("leader", "one")
        second = await other.acquire("leader", "other", 30.0)
        assert second is not None
        assert second > first
        await one.release("leader", "one")
        await one.release("never acquired", "one")
        assert await one.acquire("leader", "one", 30.0) is None, "only its holder can release a lease"

    on_stores(scenario)


def test_a_lease_without_a_length_is_refused(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        with pytest.raises(ValueError, match="ttl_s is 0, and must be above zero"):
            await stage.store("one").acquire("leader", "one", 0)

    on_stores(scenario)


def test_leases_are_not_seen_among_the_values(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = stage.store("one")
        await store.acquire("leader", "one", 30.0)
        assert await store.get("leader") is None
        assert await store.list("") == []

    on_stores(scenario)
