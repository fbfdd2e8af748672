"""`nearcast coordinator`: one of those that lead, or wait to."""

import asyncio

import typer

from nearcast.brokers.connect import connector
from nearcast.brokers.log import LogSites
from nearcast.cli.options import ConfigFile
from nearcast.client.open import unique_name
from nearcast.coordinator import Coordinator
from nearcast.coordinator.brokers import Fleet
from nearcast.coordinator.journal import BUCKET
from nearcast.domain.broker import BrokerRecord, Presence
from nearcast.domain.errors import StoreDown
from nearcast.fleet.rental import LocalProvisioner
from nearcast.store.nats_kv import NatsKvStore
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import BUS, Config, load_config
from nearcast.transport.process import run_until_stopped, say_ready, wait_until

_RETRY_S = 0.5


def run_coordinator(config: ConfigFile = None) -> None:
    """Run a coordinator, until it is stopped. Any number may run; one leads.

    Prints one JSON line when it is connected to the control bus and the store.
    """
    loaded = load_config(config)
    raise typer.Exit(run_until_stopped(lambda stopped: _serve(loaded, stopped)))


async def _serve(config: Config, stopped: asyncio.Event) -> None:
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
        if await wait_until(lambda: coordinator.connected, stopped):
            say_ready(coordinator=name)
        await stopped.wait()
    finally:
        await coordinator.close()
        await sites.close()
        await journal.close()
        await store.close()


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
