"""`nearcast pipeline run`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
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
from nearcast.transport.access import Role
from nearcast.transport.config import Config, load_config
from nearcast.transport.crew import Crew
from nearcast.transport.http import parse_address
from nearcast.transport.process import run_until_stopped, say_ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETRY_S = 0.5
_METRICS_S = 5.0  # as old as what it tells of channels may be
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
    loaded = load_config(config).acting(Role.COORDINATOR)
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
    try:
        async with _metrics(config) as url:
            say_ready(pipeline=name, **({} if url is None else {"metrics": url}))
            pipeline = Pipeline(config, store, config.tables, spark, name, http, results)
            telling = asyncio.create_task(_say_leading(pipeline))
            try:
                await pipeline.run(stopped)
            finally:
                telling.cancel()
    finally:
        await store.close()


@asynccontextmanager
async def _metrics(config: Config) -> AsyncIterator[str | None]:
    """Of channels, at the configuration's web.metrics. Gives the address, if there is one."""
    if config.web.metrics is None:
        yield None
        return
    try:
        from nearcast.web.channels import ChannelReader  # noqa: PLC0415  # an extra
        from nearcast.web.metrics import ChannelMetrics  # noqa: PLC0415
        from nearcast.web.server import serving_metrics  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"web.metrics: to serve at {config.web.metrics} pip install 'nearcast[web]'") from error
    channels, crew = ChannelReader(config), Crew()
    crew.start(channels.refresh(_METRICS_S), "channels are read")
    try:
        served = serving_metrics(config.web.metrics, config.web.tls, ChannelMetrics(lambda: channels.known))
        async with served as url:
            yield url
    finally:
        await crew.close()
        await channels.close()


async def _say_leading(pipeline: Pipeline) -> None:
    await pipeline.leading.wait()
    say_ready(pipeline=pipeline.name, leading=True)
