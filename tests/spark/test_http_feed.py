"""A feed from http on a real web server: what was answered for is in the dataset, once per key."""

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from nearcast.domain.dataset import Dataset, Feed
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.feeds import take_batch
from nearcast.pipeline.http_source import HttpSource
from nearcast.pipeline.inlet import MOST_BYTES, routes_to
from nearcast.pipeline.tables import Table
from nearcast.transport.web import serving
from tests.spark.conftest import memory_store, rows

CALLS = Dataset("calls", "c1", parse_schema("id BIGINT"))
FEED = Feed("calls", "f1", "http", "calls")


async def post(url: str, body: bytes, key: str | None = None) -> tuple[int, Any]:
    def asked() -> tuple[int, Any]:
        headers = {} if key is None else {"Idempotency-Key": key}
        request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310  # loopback
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    return await asyncio.to_thread(asked)


async def test_what_was_answered_for_is_taken_once_per_key_also_by_the_next_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(memory_store(), tmp_path, CALLS)
    await table.create()
    sources = {"calls": HttpSource(tmp_path / "feed", "calls")}
    async with serving(routes_to(sources)) as address:
        root = f"{address}/feeds"
        url = f"{root}/calls"
        assert await post(url, b'{"id": 1}\n{"id": "x"}\n', "a") == (202, {"accepted": 2, "repeated": False})
        twice = await asyncio.gather(*(post(url, b'{"id": 2}', "b") for _ in range(5)))
        assert sorted(code for code, _ in twice) == [200] * 4 + [202]
        assert await post(url, b'{"id": 1}\n{"id": "x"}\n', "a") == (200, {"accepted": 2, "repeated": True})
        await take_batch(spark, FEED, table, sources["calls"])
        await sources["calls"].close()
        sources["calls"] = HttpSource(tmp_path / "feed", "calls")  # as the next process does
        assert (await post(url, b'{"id": 2}', "b"))[0] == 200
        assert (await post(url, b'{"id": 3}'))[0] == 202
        await take_batch(spark, FEED, table, sources["calls"])
        assert (await post(f"{root}/other", b"{}"))[1] == {"error": "no feed 'other' from http runs here"}
        assert (await post(url, b" \n"))[0] == 400
        assert (await post(url, b"\xff"))[1] == {"error": "the body is not UTF-8: byte 0"}
        assert (await post(url, b"x" * (MOST_BYTES + 1)))[0] == 413
    await sources["calls"].close()
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id") == [(1,), (2,), (3,)]
        assert rows(snapshot.rejected(spark), "reason", "raw") == [("id: 'x' is no BIGINT", '{"id": "x"}')]
