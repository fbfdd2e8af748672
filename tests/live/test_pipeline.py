"""Datasets and feeds by the command line, on a real fleet, with pipelines that are killed in the middle."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import dataset as arrow  # type: ignore[import-untyped]  # untyped

from nearcast.cli.connect import operator_of
from nearcast.client import open_client
from nearcast.domain.errors import LogRefused
from nearcast.domain.log import LogSpec
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.manifest import Manifest
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.transport.config import Config, load_config
from tests.live.conftest import Fleet

SPARK = ("--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=1")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("pipeline"), "--sites", "1", "--cluster", "3")
    try:
        fleet.until_well()
        yield fleet
    finally:
        fleet.stop()


def started(fleet: Fleet) -> "subprocess.Popen[str]":
    """A pipeline that leads."""
    process = fleet.start("pipeline", "run", *SPARK)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("leading"):
            return process
    raise AssertionError(process.communicate()[1])


async def held(config: Config, name: str) -> tuple[Manifest, list[dict[str, object]], list[dict[str, object]]]:
    """A dataset's manifest, records and rejected ones, as the files have them."""
    async with pipeline_store_of(config) as store:
        table = Table(store, config.tables, (await CatalogStore(store).read()).dataset(name))
        manifest = await table.head()
    found: list[list[dict[str, object]]] = []
    for part in ("", "rejected"):
        paths = [str(table.folder / each.path) for each in manifest.files if each.part == part]
        found.append(arrow.dataset(paths).to_table().to_pylist() if paths else [])
    return manifest, found[0], found[1]


@pytest.mark.timeout(600)
def test_a_pipeline_killed_in_the_middle_loses_and_doubles_nothing(fleet: Fleet, tmp_path: Path) -> None:
    made = fleet.run("dataset", "create", "calls", "--schema", "id BIGINT NOT NULL, kind STRING", "--json")
    assert made.code == 0, made
    config = load_config(fleet.config)

    async def keep() -> None:
        until_s = time.monotonic() + 30
        while True:
            try:
                async with operator_of(config) as operator:
                    await operator.keep("calls", LogSpec(1))
                    return
            except LogRefused:
                assert time.monotonic() < until_s
                await asyncio.sleep(0.2)

    asyncio.run(keep())
    assert "exactly once" in fleet.run("feed", "create", "calls", "--from", "topic:calls").out
    folder = tmp_path / "in"
    folder.mkdir()
    made = fleet.run("feed", "create", "files", "--from", f"file:{folder}", "--into", "calls")
    assert made.code == 0, made

    async def traffic(kills: int) -> int:
        """Publishes, and drops files, until the pipeline was killed so often and has caught up."""
        process = await asyncio.to_thread(started, fleet)
        sent, enough = 0, asyncio.Event()
        async with open_client(config) as client:

            async def publish() -> None:
                nonlocal sent
                while not enough.is_set():
                    batch = [{"id": 2 * (sent + number), "kind": "topic"} for number in range(20)]
                    payloads = [json.dumps(each).encode() for each in batch] + [b"broken"]
                    await asyncio.gather(*(client.publish("calls", each) for each in payloads))
                    lines = [json.dumps({"id": 2 * (sent + number) + 1, "kind": "file"}) for number in range(20)]
                    partial = folder / f".{sent}"
                    partial.write_text("\n".join([*lines, "broken"]))
                    partial.rename(folder / f"{sent:06d}.jsonl")
                    sent += 20
                    await asyncio.sleep(0.2)

            publishing = asyncio.create_task(publish())
            try:
                for _ in range(kills):
                    before = (await held(config, "calls"))[0].version
                    while (await held(config, "calls"))[0].version < before + 3:
                        await asyncio.sleep(0.05)
                        assert process.poll() is None, process.communicate()
                    process.send_signal(signal.SIGKILL)
                    await asyncio.to_thread(process.communicate)
                    process = await asyncio.to_thread(started, fleet)
            finally:
                enough.set()
                await publishing
            await client.publish("calls", b"last")
        until_s = time.monotonic() + 120
        while True:
            _, records, rejected = await held(config, "calls")
            if len(records) >= 2 * sent and any(each["raw"] == "last" for each in rejected):
                break
            assert time.monotonic() < until_s, (len(records), sent, process.poll())
            await asyncio.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, (out, err)
        return sent

    async def limited() -> int:
        async with asyncio.timeout(500):
            return await traffic(1)

    sent = asyncio.run(limited())
    _, records, rejected = asyncio.run(held(config, "calls"))
    ids = sorted(int(str(each["id"])) for each in records)
    assert ids == list(range(len(ids))), "each once"
    assert len(ids) >= 2 * sent
    assert {each["reason"] for each in rejected} == {"is no JSON"}
    shown = fleet.run("feed", "show", "calls", "--json").json
    assert shown["promise"] == "exactly once"
    assert shown["offset"]
    refused = fleet.run("dataset", "drop", "calls")
    assert (refused.code, "cannot drop dataset calls: feed calls fills it" in refused.err) == (1, True)


def test_a_static_dataset_is_loaded_once_and_wrong_commands_say_what_is_wrong(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "shelters.csv").write_text("id,name\n1,north\n2,south\nx,east\n")
    assert fleet.run("dataset", "create", "shelters", "--schema", "id BIGINT, name STRING", "--key", "id").code == 0
    again = fleet.run("dataset", "create", "Shelters", "--schema", "id BIGINT")
    assert "dataset shelters is there already" in again.err
    assert "character 4: 'NUMBER' is no type" in fleet.run("dataset", "create", "d", "--schema", "id NUMBER").err
    assert "no file is there" in fleet.run("dataset", "load", "shelters", str(tmp_path / "none*")).err
    loaded = fleet.run("dataset", "load", "shelters", str(tmp_path / "shelters.csv"), "--json", *SPARK)
    assert loaded.json == {"dataset": "shelters", "version": 1, "rows": 2, "rejected": 1}
    assert "the latest record of each id" in fleet.run("dataset", "show", "shelters").out
    assert [each["dataset"] for each in fleet.run("dataset", "list", "--json").json if each["rows"] == 2] == [
        "shelters"
    ]
    assert "at most once" in fleet.run("feed", "create", "plain", "--from", "topic:plain", "--into", "shelters").out
    assert "expected topic:NAME" in fleet.run("feed", "create", "odd", "--from", "ftp:x").err
    assert fleet.run("feed", "drop", "plain").code == 0
    assert fleet.run("dataset", "drop", "shelters").code == 0
    assert not [*load_config(fleet.config).tables.glob("shelters-*")]
