"""A Spark that somebody else runs (Spark Connect): nothing here has its Java, or knows its settings."""

import os
import socket
from pathlib import Path

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.domain.execution import Execution
from nearcast.pipeline.channels import ChannelRunner
from nearcast.pipeline.fanout import map_on_spark
from nearcast.pipeline.session import beside, cores_of, is_end_of_spark, session
from tests.spark.conftest import connect_server
from tests.spark.test_channels import SPEC, opened, report


@pytest.mark.usefixtures("way")
async def test_a_channel_is_answered_there(connect: str, tmp_path: Path) -> None:
    with session("tests", connect) as spark:
        store, channel, tables = await opened(spark, tmp_path)
        runner = ChannelRunner(store, tmp_path, channel, tables, spark=spark)
        await runner.create()
        fire, flood = (SPEC.bind({"kind": kind}) for kind in ("fire", "flood"))
        await runner.subscribe([fire, flood])
        await report(spark, tables, (1, "fire"), (2, "flood"), (3, "fire"))
        execution = await runner.execute()
    assert isinstance(execution, Execution)
    found = {told.key: told.rows for told in runner.results.notifications(execution, [fire.key, flood.key])}
    assert [(row["id"], row["shelter"]) for row in found[fire.key]] == [
        (3, "gym"),
        (3, "hall"),
        (1, "gym"),
        (1, "hall"),
    ]
    assert [(row["id"], row["shelter"]) for row in found[flood.key]] == [(2, "boat")]
    assert str(found[flood.key][0]["at"]) == "1970-01-01 00:00:02+00:00"


def test_it_has_settings_of_its_own_and_this_process_its_own_spark_afterwards(connect: str) -> None:
    with session("tests", connect, {"spark.sql.shuffle.partitions": "7"}) as spark:
        assert cores_of(spark) == 2
        other = beside(spark)
        other.conf.set("spark.sql.ansi.enabled", "false")
        assert [each.conf.get("spark.sql.ansi.enabled") for each in (spark, other)] == ["true", "false"]
        assert {each.conf.get("spark.sql.shuffle.partitions") for each in (spark, other)} == {"7"}
        assert {each.conf.get("spark.sql.session.timeZone") for each in (spark, other)} == {"UTC"}
        assert map_on_spark(spark, lambda seed: (seed, os.getpid() != 0), range(5)) == [(n, True) for n in range(5)]
        with pytest.raises(ConfigError, match="has a Spark session already"), session("another"):
            pass
    with session("tests", "local[1]") as spark:
        assert cores_of(spark) == 1
        assert spark.range(3).count() == 3


def test_an_address_where_nobody_listens_is_told_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening
        nobody = f"sc://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match="does not start on 'sc://127"), session("tests", nobody):
            pass


def test_a_server_that_ends_is_no_fault_of_a_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.pipeline.session._REMOTE_RETRIES", 2)
    with connect_server(tmp_path) as (url, server), session("tests", url) as spark:
        with pytest.raises(Exception, match="nothing") as refused:  # whatever class Spark gives it
            spark.sql("SELECT nothing").collect()
        assert not is_end_of_spark(refused.value)
        server.kill()
        server.wait()
        with pytest.warns(UserWarning, match="RETRIES_EXCEEDED"), pytest.raises(Exception) as gone:  # noqa: PT011
            spark.range(3).count()
        assert is_end_of_spark(gone.value)
