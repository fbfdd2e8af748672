"""`nearcast coordinator`: one of those that lead, or wait to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from nearcast.brokers.connect import connector
from nearcast.brokers.log import LogSites
from nearcast.cli.connect import operator_of
from nearcast.cli.options import ConfigFile
from nearcast.client.open import unique_name
from nearcast.coordinator import Coordinator
from nearcast.coordinator.brokers import Fleet
from nearcast.coordinator.journal import BUCKET, Journal
from nearcast.domain.broker import BrokerRecord, Presence
from nearcast.domain.errors import ConfigError, StoreDown
from nearcast.fleet.rental import LocalProvisioner
from nearcast.store.nats_kv import NatsKvStore
from nearcast.transport.access import Role
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import BUS, Config, load_config
from nearcast.transport.http import parse_address
from nearcast.transport.process import run_until_stopped, say_ready, wait_until

_RETRY_S = 0.5


def run_coordinator(
    web: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where it serves API, dashboard and metrics, instead of the configuration's web.address.",
            show_default=False,
        ),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Run a coordinator, until it is stopped. Any number may run; one leads.

    Prints one JSON line when it is connected to the control bus and the store.
    """
    loaded = load_config(config).acting(Role.COORDINATOR)
    address = web or loaded.web.address
    if address is not None:
        parse_address(address)
    raise typer.Exit(run_until_stopped(lambda stopped: _serve(loaded, address, stopped)))


async def _serve(config: Config, address: str | None, stopped: asyncio.Event) -> None:
    name = unique_name("coordinator")
    store = NatsKvStore(config.control, name=name)
    journal = NatsKvStore(config.control, name=name, bucket=BUCKET)
    for each in (store, journal):
        await _open(each, stopped)
    sites = LogSites(config.servers, name=name, clock=SystemClock())
    connect = connector(config.endpoints(), name=name)
    coordinator = Coordinator(
        name,
        connect,
        store,
        config.ring,
        bus=BUS,
        dialect=config.dialect,
        clock=SystemClock(),
        timing=config.timing,
        loop=config.loop,
        fleet=_fleet(config),
        journal=journal,
        sites=sites,
        homes=config.homes,
    )
    coordinator.start()
    try:
        async with _web(coordinator, address, config, journal) as url:
            if await wait_until(lambda: coordinator.connected, stopped):
                say_ready(coordinator=name, **({} if url is None else {"web": url}))
            await stopped.wait()
    finally:
        await coordinator.close()
        await sites.close()
        await journal.close()
        await store.close()


@asynccontextmanager
async def _web(
    coordinator: Coordinator, address: str | None, config: Config, journal: NatsKvStore
) -> AsyncIterator[str | None]:
    """Gives the address, if there is one."""
    if address is None:
        yield None
        return
    try:
        from nearcast.web.server import serving_all  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ConfigError(
            f"web.address: what is served at {address} needs a web server: pip install 'nearcast[web]'"
        ) from error
    async with serving_all(
        coordinator.name,
        address,
        config,
        open_operator=lambda: operator_of(config, "web"),
        journal=Journal(journal),
        rejects=coordinator.rejects,
    ) as url:
        yield url


async def _open(store: NatsKvStore, stopped: asyncio.Event) -> None:
    while not stopped.is_set():
        try:
            await store.open()
        except StoreDown:
            await asyncio.sleep(_RETRY_S)
        else:
            return


def _fleet(config: Config) -> Fleet:
    named = tuple(
        BrokerRecord(name, Presence.PRESENT, at.endpoint.url, at.site, at.out_bytes_per_s)
        for name, at in config.brokers.items()
    )
    provisioner = None if config.provisioner is None else LocalProvisioner(config.provisioner)
    return Fleet(named, provisioner, config.minimum)
