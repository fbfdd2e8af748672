"""`nearcast pipeline run`."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli.options import ConfigFile
from nearcast.cli.pipeline.options import Conf, Master, parse_conf
from nearcast.client.open import unique_name
from nearcast.domain.errors import ConfigError, StoreDown
from nearcast.pipeline.catalog import BUCKET
from nearcast.pipeline.pipeline import Pipeline
from nearcast.pipeline.session import LOCAL, session
from nearcast.store.nats_kv import NatsKvStore
from nearcast.transport.config import Config, load_config
from nearcast.transport.http import parse_address
from nearcast.transport.process import run_until_stopped, say_ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETRY_S = 0.5
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  # what is refused


def run_pipeline(
    master: Master = LOCAL,
    conf: Conf = None,
    *,
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="Where feeds from http are handed records.")
    ] = "127.0.0.1:8780",
    results: Annotated[
        str,
        typer.Option(
            "--results",
            metavar="HOST:PORT",
            help="Where agents fetch results: on a host that they reach by this name. Port 0 is a free one.",
        ),
    ] = "127.0.0.1:0",
    config: ConfigFile = None,
) -> None:
    """Run all feeds and channels, until it is stopped. Any number may run; one leads, the others wait.

    Prints one JSON line when Spark is up, and one when it leads. Nothing is lost or doubled when it is killed: the next
    one goes on from the last commit.
    """
    loaded = load_config(config)
    for address in (http, results):
        parse_address(address)  # told before Spark is started
    if parse_address(results)[0] in _EVERYWHERE:
        raise ConfigError(f"--results {results}: agents are told this address; give one that they can reach")
    # Executions and commits of several tables share the cores evenly, instead of waiting for each other.
    settings = {"spark.scheduler.mode": "FAIR", **parse_conf(conf)}
    with session("nearcast pipeline", master, settings) as spark:
        raise typer.Exit(run_until_stopped(lambda stopped: _serve(loaded, spark, http, results, stopped)))


async def _serve(config: Config, spark: "SparkSession", http: str, results: str, stopped: asyncio.Event) -> None:
    name = unique_name("pipeline")
    store = NatsKvStore(config.control, name=name, bucket=BUCKET)
    while not stopped.is_set():
        with suppress(StoreDown):
            await store.open()
            break
        await asyncio.sleep(_RETRY_S)
    say_ready(pipeline=name)
    pipeline = Pipeline(config, store, config.tables, spark, name, http, results)
    telling = asyncio.create_task(_say_leading(pipeline))
    try:
        await pipeline.run(stopped)
    finally:
        telling.cancel()
        await store.close()


async def _say_leading(pipeline: Pipeline) -> None:
    await pipeline.leading.wait()
    say_ready(pipeline=pipeline.name, leading=True)
