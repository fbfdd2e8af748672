"""The pointer of a table: who wins, who loses, and what a kill or a lost answer leaves. Files are only named here."""

from pathlib import Path

import pytest

from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import Conflict, StoreDown, TableGone
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.manifest import DataFile, Manifest
from nearcast.pipeline.tables import Table
from nearcast.store.memory import MemoryStore, MemoryStoreHandle
from nearcast.transport.clock import SystemClock

PLACES = Dataset("places", "p1", parse_schema("id BIGINT"))


class LosesAnswers(MemoryStoreHandle):
    """Writes, and does not say so."""

    lost = 0

    async def put(self, key: str, value: bytes, expected: int) -> int:
        revision = await super().put(key, value, expected)
        if self.lost:
            self.lost -= 1
            raise StoreDown("the answer was lost")
        return revision


def some(version: int, name: str = "f") -> DataFile:
    return DataFile(f"data/{version}/{name}", version, version, 1, 1, 0.0)


async def new_table(folder: Path, handle: MemoryStoreHandle | None = None) -> Table:
    table = Table(handle or MemoryStore(SystemClock()).handle(SystemClock()), folder, PLACES)
    await table.create()
    return table


async def test_a_commit_whose_answer_is_lost_is_made_once(tmp_path: Path) -> None:
    handle = LosesAnswers(MemoryStore(SystemClock()), SystemClock())
    table = await new_table(tmp_path, handle)
    handle.lost = 1
    committed = await table.commit(await table.head(), [some(1)], {"s": "1"})
    assert committed == await table.head()
    assert committed.version == 1


async def test_a_compaction_does_not_lose_to_commits_nor_they_to_it(tmp_path: Path) -> None:
    table = await new_table(tmp_path)
    head = await table.commit(await table.head(), [some(1)], {})
    other = Table(table._store, tmp_path, PLACES)
    beside = await other.commit(await other.head(), [some(2)], {})
    assert await table.replace(["data/1/f"], [DataFile("data/1/new", 1, 1, 1, 1, 0.0)])
    third = await other.commit(beside, [some(3)], {})
    assert sorted(third.paths) == ["data/1/new", "data/2/f", "data/3/f"]
    assert not await table.replace(["data/1/f"], []), "it is gone already"
    with pytest.raises(Conflict):
        await table.commit(head, [some(2, "late")], {})


async def test_what_a_killed_writer_left_is_removed_and_what_is_named_stays(tmp_path: Path) -> None:
    table = await new_table(tmp_path)
    await table.commit(await table.head(), [some(1)], {})
    for name in ("data/1/f", "data/1/orphan", "data/2/f"):
        (table.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (table.folder / name).write_text("x")
    (table.folder / "manifests" / "0000000002-dead.json").write_text("half of")
    await table.clean(3600.0)
    assert (table.folder / "data/2/f").exists(), "its writer may be about to commit it"
    await table.clean(-1.0)
    assert sorted(str(path.relative_to(table.folder)) for path in table.folder.glob("data/*/*")) == ["data/1/f"]
    assert len([*table.folder.glob("manifests/*")]) == 1
    assert (await table.head()).version == 1


async def test_files_that_somebody_reads_stay_when_the_table_has_dropped_them(tmp_path: Path) -> None:
    table = await new_table(tmp_path)
    await table.commit(await table.head(), [some(1)], {})
    path = table.folder / "data/1/f"
    path.parent.mkdir(parents=True)
    path.write_text("x")
    async with table.pinned() as snapshot:
        await table.replace(["data/1/f"], [])
        await table.clean(-1.0)
        assert path.exists()
        assert snapshot.manifest.paths == {"data/1/f"}
    await table.clean(-1.0)
    assert not path.exists()


async def test_a_table_made_anew_under_its_name_is_another_one(tmp_path: Path) -> None:
    table = await new_table(tmp_path)
    await table.drop()
    again = Table(table._store, tmp_path, Dataset("places", "p2", PLACES.schema))
    await again.create()
    with pytest.raises(TableGone, match="has been dropped"):
        await table.commit(Manifest(), [some(1)], {})
    assert (await again.head()).version == 0
