"""`nearcast agent`: the process beside one broker."""

import asyncio
import math
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from nearcast.agent import Agent
from nearcast.agent.analyzer import Analyzer
from nearcast.agent.counters import counters_of
from nearcast.agent.sampler import Sampling
from nearcast.agent.workers import WorkerProcesses
from nearcast.brokers.connect import connector
from nearcast.cli.dead_letters import DeadLetters
from nearcast.cli.options import ConfigFile
from nearcast.control.forwarder import MOST_INCARNATIONS
from nearcast.control.whereabouts import AGENT_PACE
from nearcast.domain.errors import ConfigError
from nearcast.transport.access import Role
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import BUS, BrokerAt, Config, load_config
from nearcast.transport.directory import Directory
from nearcast.transport.endpoint import Tls
from nearcast.transport.http import parse_address
from nearcast.transport.process import run_until_stopped, say_ready, wait_until


def run_agent(
    broker: Annotated[str, typer.Option("--broker", metavar="NAME", help="The broker that this agent is beside.")],
    url: Annotated[
        str, typer.Option(metavar="URL", help="Its address, where the configuration does not name it.")
    ] = "",
    monitor: Annotated[str, typer.Option(metavar="URL", help="Likewise, where a NATS server shows its counters.")] = "",
    capacity: Annotated[
        float | None, typer.Option(metavar="BYTES/S", min=1, help="Likewise, what it can send.", show_default=False)
    ] = None,
    *,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where it serves its metrics, instead of the configuration's web.metrics.",
            show_default=False,
        ),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Run the agent of one broker, until it is stopped. A broker that is not in the file also needs `broker add`.

    Prints one JSON line when it is connected to its broker and to the control bus.
    """
    loaded = load_config(config).acting(Role.AGENT)
    at = BrokerAt(loaded.added(url), "", capacity, monitor or None) if url else loaded.brokers.get(broker)
    if at is None:
        raise ConfigError(f"{loaded.path}: no broker {broker!r}; brokers are {', '.join(loaded.brokers)}: give --url")
    served = metrics or loaded.web.metrics
    if served is not None:
        parse_address(served)
    raise typer.Exit(run_until_stopped(lambda stopped: _serve(loaded, broker, at, served, stopped)))


async def _serve(config: Config, broker: str, at: BrokerAt, served: str | None, stopped: asyncio.Event) -> None:
    name, clock, directory = f"agent-{broker}", SystemClock(), Directory(config, at.site)
    directory.learn(((broker, at.endpoint.url),) if broker not in config.brokers else ())
    letters = DeadLetters(config, broker)
    agent = Agent(
        broker,
        connector(directory, name=name),
        config.ring,
        bus=BUS,
        incarnation=1 + secrets.randbelow(MOST_INCARNATIONS - 1),
        dialect=config.dialect,
        clock=clock,
        timing=config.timing,
        analyzer=Analyzer(broker, at.out_bytes_per_s or math.inf, at.most) if config.counts else None,
        counters=counters_of(at, agent=name, clock=clock) if config.counts else None,
        sampling=Sampling(config.sampled_topics, config.sampled_messages) if config.counts else None,
        learn=directory.learn,
        pace=AGENT_PACE if config.counts else None,
        workers=WorkerProcesses(math.ceil(at.most.cores or os.cpu_count() or 1), clock),
        bury=letters.bury,
        tls=config.tls,
    )
    agent.start()
    try:
        async with _metrics(agent, served, config.web.tls) as url:
            if await wait_until(lambda: agent.connected, stopped):
                say_ready(agent=broker, **({} if url is None else {"metrics": url}))
            await stopped.wait()
    finally:
        await agent.close()
        await letters.close()


@asynccontextmanager
async def _metrics(agent: Agent, address: str | None, tls: Tls | None) -> AsyncIterator[str | None]:
    """Gives the address, if there is one."""
    if address is None:
        yield None
        return
    try:
        from nearcast.web.metrics import ComplaintMetrics, HandoverMetrics, RejectMetrics  # noqa: PLC0415  # an extra
        from nearcast.web.server import serving_metrics  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"web.metrics: to serve at {address} pip install 'nearcast[web]'") from error
    handovers = HandoverMetrics(agent.broker, lambda: (agent.machine.handovers()[0], len(agent.machine.forwarders)))
    complaints = ComplaintMetrics(agent.broker, agent.complaints)
    async with serving_metrics(address, tls, handovers, complaints, RejectMetrics(agent.rejects)) as url:
        yield url
