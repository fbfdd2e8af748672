"""What every Store promises, over every adapter (see conftest)."""

import asyncio
import math

import pytest

from nearcast.domain.errors import Conflict
from nearcast.store.store import ABSENT, MAX_VALUE_BYTES, Entry, Store
from tests.contract.store_stages import Run, StoreStage, observe, until

# Values


def test_a_value_written_by_one_process_is_read_by_another(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        one, other = await stage.store("one"), await stage.store("other")
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
        store = await stage.store("one")
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
        stores = {f"p{number}": await stage.store(f"p{number}") for number in range(3)}

        async def write(process: str, expected: int) -> str | None:
            try:
                await stores[process].put("k", process.encode(), expected)
            except Conflict:
                return None
            return process

        expected = ABSENT
        for _ in range(50):
            outcomes = await asyncio.gather(*(write(process, expected) for process in stores))
            winners = [process for process in outcomes if process]
            assert len(winners) == 1
            entry = await stores["p0"].get("k")
            assert entry is not None
            assert entry.value == winners[0].encode()
            expected = entry.revision

    on_stores(scenario)


def test_of_those_that_create_a_deleted_key_again_exactly_one_wins(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        stores = [await stage.store(f"p{number}") for number in range(3)]
        revision = await stores[0].put("k", b"first", ABSENT)
        for _ in range(20):
            await stores[0].delete("k", revision)
            outcomes = await asyncio.gather(*(one.put("k", b"v", ABSENT) for one in stores), return_exceptions=True)
            revisions = [outcome for outcome in outcomes if isinstance(outcome, int)]
            assert len(revisions) == 1
            assert [type(outcome) for outcome in outcomes if outcome not in revisions] == [Conflict, Conflict]
            assert revisions[0] > revision + 1, "the deletion has a revision too"
            revision = revisions[0]

    on_stores(scenario)


def test_a_deleted_key_is_absent_and_its_revisions_go_on_rising(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = await stage.store("one")
        first = await store.put("k", b"1", ABSENT)
        await store.delete("k", first)
        assert await store.get("k") is None
        assert await store.list("") == []
        with pytest.raises(Conflict):
            await store.put("k", b"2", first)
        assert await store.put("k", b"2", ABSENT) > first

    on_stores(scenario)


def test_a_key_that_is_not_there_is_deleted_already(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = await stage.store("one")
        await store.delete("k", ABSENT)
        await store.delete("k", await store.put("k", b"1", ABSENT))
        await store.delete("k", ABSENT)
        assert await store.get("k") is None

    on_stores(scenario)


# Whatever a topic's name may have, and what it may not.
KEYS = ["a", "a.b", "a/b", "a//b", "/", "a:b=c@d+e-f_g", "größe/Ω.9", "=3A", "a b", "*", ">", ".", "x" * 300]


def test_a_key_may_have_any_character(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = await stage.store("one")
        for key in KEYS:
            await store.put(key, key.encode(), ABSENT)
        for key in KEYS:
            found = await store.get(key)
            assert found is not None
            assert (found.key, found.value) == (key, key.encode())
        for prefix in ["", *KEYS, "gr", "größe/", "a/"]:
            expected = sorted(key for key in KEYS if key.startswith(prefix))
            assert [entry.key for entry in await store.list(prefix)] == expected

    on_stores(scenario)


def test_a_value_may_be_large_but_not_too_large(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = await stage.store("one")
        large = bytes(range(256)) * (MAX_VALUE_BYTES // 256)
        revision = await store.put("k", large, ABSENT)
        assert await store.get("k") == Entry("k", large, revision)
        assert await store.list("") == [Entry("k", large, revision)]
        with pytest.raises(ValueError, match="'k': a value of 1000001 bytes is too large; at most 1000000"):
            await store.put("k", bytes(MAX_VALUE_BYTES + 1), revision)
        assert await store.put("k", b"small", revision) > revision

    on_stores(scenario)


def test_a_list_has_all_keys_of_a_prefix_by_name(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = await stage.store("one")
        for key in ("route.b", "route.a", "ring", "route.c"):
            await store.put(key, key.encode(), ABSENT)
        assert [entry.key for entry in await store.list("route.")] == ["route.a", "route.b", "route.c"]
        assert [entry.value for entry in await store.list("ring")] == [b"ring"]
        assert await store.list("x") == []

    on_stores(scenario)


def test_a_thousand_keys_are_listed_while_they_are_written(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer, reader = await stage.store("writer"), await stage.store("reader")
        keys = [f"many/{number:04}" for number in range(1000)]
        revisions: dict[str, int] = {}

        async def write(some: list[str]) -> None:
            for key in some:
                revisions[key] = await writer.put(key, b"v" * 100, revisions.get(key, ABSENT))

        await asyncio.gather(*(write(keys[start::50]) for start in range(50)))
        writing = [asyncio.create_task(write(keys[start::10])) for start in range(10)]
        for _ in range(3):
            before = dict(revisions)
            found = {entry.key: entry.revision for entry in await reader.list("many/")}
            assert list(found) == keys
            assert all(found[key] >= before[key] for key in keys)
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)

    on_stores(scenario)


# Watches


def test_a_watch_tells_what_is_there_and_then_what_changes(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer, watcher = await stage.store("writer"), await stage.store("watcher")
        b = await writer.put("w.b", b"1", ABSENT)
        a = await writer.put("w.a", b"2", ABSENT)
        await writer.put("other", b"3", ABSENT)
        await writer.delete("w.gone", await writer.put("w.gone", b"3", ABSENT))
        seen: list[Entry] = []
        observing = asyncio.create_task(observe(watcher, "w.", seen, b"end"))
        await until(lambda: len(seen) == 2)
        b2 = await writer.put("w.b", b"4", b)
        await until(lambda: len(seen) == 3)
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


def test_a_watcher_that_starts_among_writes_misses_nothing_that_stays(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer = await stage.store("writer")
        watchers = [await stage.store(f"watcher {number}") for number in range(8)]
        views: list[list[Entry]] = [[] for _ in range(8)]
        stay = {}
        async with asyncio.TaskGroup() as group:
            revision = ABSENT
            for number in range(80):
                if number % 10 == 5:
                    group.create_task(observe(watchers[number // 10], "w.", views[number // 10], b"end"))
                stay[f"w.{number}"] = await writer.put(f"w.{number}", b"stays", ABSENT)
                revision = await writer.put("w.changes", str(number).encode(), revision)
                await asyncio.sleep(0.0005)
            await writer.put("w.changes", b"end", revision)
        for view in views:
            assert {entry.key: entry.revision for entry in view if entry.key in stay} == stay
            assert len([entry for entry in view if entry.key in stay]) == len(stay)
            changes = [entry.revision for entry in view if entry.key not in stay]
            assert changes == sorted(set(changes))

    on_stores(scenario)


def test_a_slow_watcher_learns_how_everything_is_in_the_end(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        writer, watcher = await stage.store("writer"), await stage.store("watcher")
        changes = watcher.watch("w.")
        first = asyncio.ensure_future(anext(changes))
        revision = await writer.put("w.k", b"0", ABSENT)
        assert (await first).value == b"0"
        for number in range(1, 600):
            revision = await writer.put("w.k", str(number).encode(), revision)
        last = 0
        async with asyncio.timeout(30):
            while last != revision:
                entry = await anext(changes)
                assert entry.revision > last
                last = entry.revision
        await changes.aclose()

    on_stores(scenario)


# Leases


def test_a_lease_has_one_holder(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        processes = [f"p{number}" for number in range(5)]
        stores = [await stage.store(process) for process in processes]
        contest = zip(stores, processes, strict=True)
        terms = await asyncio.gather(*(store.acquire("leader", process, 30.0) for store, process in contest))
        assert len([term for term in terms if term is not None]) == 1
        assert await stores[0].acquire("another lease", "p0", 30.0) is not None

    on_stores(scenario)


def test_a_lease_that_is_renewed_keeps_its_term_and_lasts_longer(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        one, other = await stage.store("one"), await stage.store("other")
        term = await one.acquire("leader", "one", 1.0)
        assert term is not None
        for _ in range(3):
            await asyncio.sleep(0.4)
            assert await one.acquire("leader", "one", 1.0) == term
            assert await other.acquire("leader", "other", 1.0) is None

    on_stores(scenario)


async def acquired(store: Store, owner: str, ttl_s: float) -> tuple[int, float]:
    """Ask until it is given; the term, and when the owner asked for it."""
    async with asyncio.timeout(30):
        while True:
            asked_s = asyncio.get_running_loop().time()
            term = await store.acquire("leader", owner, ttl_s)
            if term is not None:
                return term, asked_s
            await asyncio.sleep(0.02)


def test_a_lease_runs_out_and_the_term_rises(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        one, other = await stage.store("one"), await stage.store("other")
        terms, held_until_s = [], -math.inf
        for store, owner in ((one, "one"), (other, "other"), (one, "one"), (other, "other")):
            term, asked_s = await acquired(store, owner, 0.3)
            assert asyncio.get_running_loop().time() >= held_until_s
            terms.append(term)
            held_until_s = asked_s + 0.3
        assert terms == sorted(set(terms))

    on_stores(scenario)


def test_an_owner_that_lets_its_lease_run_out_and_returns_has_a_higher_term(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = await stage.store("one")
        first = await store.acquire("leader", "one", 0.2)
        await asyncio.sleep(0.3)
        second = await store.acquire("leader", "one", 0.2)
        assert first is not None
        assert second is not None
        assert second > first

    on_stores(scenario)


def test_a_released_lease_is_free_at_once_and_the_term_rises(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        one, other = await stage.store("one"), await stage.store("other")
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
            await (await stage.store("one")).acquire("leader", "one", 0)

    on_stores(scenario)


def test_leases_are_not_seen_among_the_values(on_stores: Run) -> None:
    async def scenario(stage: StoreStage) -> None:
        store = await stage.store("one")
        await store.acquire("leader", "one", 30.0)
        assert await store.get("leader") is None
        assert await store.list("") == []

    on_stores(scenario)
