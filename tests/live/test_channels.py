"""Channels by the command line, on a real fleet with a real pipeline."""

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.client import open_client
from tests.live.conftest import Fleet

SPARK = ("--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=1")
QUERY = "SELECT r.id, r.kind FROM reports r WHERE is_new(r) AND r.kind = :kind"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("channels"), "--sites", "1")
    try:
        fleet.until_well()
        yield fleet
    finally:
        fleet.stop()


@pytest.mark.timeout(500)
def test_a_channel_is_created_runs_is_explained_and_dropped(fleet: Fleet, tmp_path: Path) -> None:
    assert fleet.run("channel", "list").out.startswith("There is no channel yet")
    assert fleet.run("dataset", "create", "reports", "--schema", "id INT, kind STRING").code == 0
    (tmp_path / "in").mkdir()
    assert fleet.run("feed", "create", "reports", "--from", f"file:{tmp_path / 'in'}").code == 0

    # What needs no Spark is refused before it is started.
    refused = fleet.run("channel", "create", "c", "--query", "SELECT 1 FROM nowhere", "--period", "1s")
    assert (refused.code, "channel c: line 1, column 15: no dataset 'nowhere'; datasets: reports" in refused.err) == (
        1,
        True,
    )
    assert "give either --period TIME or --continuous" in fleet.run("channel", "create", "c", "--query", QUERY).err
    assert "no channel 'c'; there is no channel yet" in fleet.run("channel", "show", "c").err

    made = fleet.run(
        "channel", "create", "fires", "--query", QUERY, "--param", "kind STRING", "--period", "1s", "--json", *SPARK
    )
    assert made.code == 0, made
    assert (made.json["columns"], made.json["datasets"], made.json["warnings"]) == (["id", "kind"], ["reports"], [])
    again = fleet.run("channel", "create", "Fires", "--query", QUERY, "--param", "kind STRING", "--continuous")
    assert "channel fires is there already" in again.err
    assert (
        "cannot drop dataset reports: feed reports fills it, channel fires reads it"
        in fleet.run("dataset", "drop", "reports").err
    )

    assert "expected HOST:PORT" in fleet.run("pipeline", "run", "--http", "8780").err
    assert "give one that they can reach" in fleet.run("pipeline", "run", "--results", "0.0.0.0:0").err

    process = fleet.start("pipeline", "run", *SPARK)
    try:
        told = asyncio.run(subscribed(fleet, tmp_path / "in"))
        until_s = time.monotonic() + 120
        while True:
            shown = fleet.run("channel", "explain", "fires", "--json").json
            if len(shown["last"]) > 2 and shown["last"][-1]["windows"]["reports"]["until"] == 2:
                break
            assert time.monotonic() < until_s, (shown, process.poll())
            time.sleep(0.2)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    assert told == [[{"id": 1, "kind": "fire"}], [{"id": 3, "kind": "fire"}]]
    assert shown["failed"] == []
    windows = [each["windows"]["reports"] for each in shown["last"]]
    assert [each["after"] for each in windows[1:]] == [each["until"] for each in windows[:-1]]
    assert "== Physical Plan ==" in shown["plan"]
    assert "seconds" in fleet.run("channel", "explain", "fires").out
    assert "every 1 s" in fleet.run("channel", "show", "fires").out
    assert fleet.run("channel", "list", "--json").json[0]["executions"] >= 3
    assert fleet.run("channel", "drop", "fires").code == 0
    assert fleet.run("feed", "drop", "reports").code == 0
    assert fleet.run("dataset", "drop", "reports").code == 0


async def subscribed(fleet: Fleet, folder: Path) -> list[list[dict[str, object]]]:
    """What a subscriber to fires is told of two files, the second of which comes when the first was told."""
    told = []
    files = ([{"id": 1, "kind": "fire"}, {"id": 2, "kind": "flood"}], [{"id": 3, "kind": "fire"}])
    async with asyncio.timeout(240), open_client(fleet.config) as client:
        subscription = await client.subscribe_channel("fires", {"kind": "fire"}, timeout_s=180)
        for number, records in enumerate(files):
            (folder / f"{number}.part").write_text("\n".join(map(json.dumps, records)))
            (folder / f"{number}.part").rename(folder / f"{number}.jsonl")
            told.append([dict(row) for row in (await anext(aiter(subscription))).rows])
        subscription.unsubscribe()
    return told
