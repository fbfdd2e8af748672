"""A client for a deployment that a configuration file describes."""

import os
import secrets
import socket
from pathlib import Path

from nearcast.brokers.connect import connector
from nearcast.brokers.log import LogSites
from nearcast.client.client import Client
from nearcast.control.whereabouts import CLIENT_PACE
from nearcast.policies.placements import NEAREST
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import Config, load_config
from nearcast.transport.directory import Directory

COUNT_S = 1.0


def open_client(config: Config | Path | None = None, *, name: str = "", site: str = "", gateway: str = "") -> Client:
    """Without `config`, the file that NEARCAST_CONFIG names, or the one in the usual places.

    `site` chooses the ways that the file has for it. A name is made up when none is given; it must be unique. A client
    that moves names the broker nearest to it as its `gateway`.
    """
    if not isinstance(config, Config):
        config = load_config(config)
    name = name or unique_name("client")
    if config.own.topics:
        name = f"{config.own.user}.{name}"  # a tenant hears what is said to clients whose names begin with its own
    directory = Directory(config, site)
    return Client(
        name,
        connector(directory, name=name),
        config.ring,
        dialect=config.dialect,
        timing=config.timing,
        count_every_s=COUNT_S if config.counts else None,
        learn=directory.learn,
        pace=CLIENT_PACE if config.counts else None,
        gateway=gateway,
        # What keeps logs cannot tell one tenant's from another's, so that servers let none of them near it.
        logs=None if config.own.topics else LogSites(directory.servers, name=name, clock=SystemClock()),
        seeks_home=config.homes.placement == NEAREST,
        allowed=config.own.topics,
    )


def unique_name(kind: str) -> str:
    """A name that no other process of the deployment has."""
    host = "".join(char if char.isalnum() else "-" for char in socket.gethostname())[:32]
    return f"{kind}-{host}-{os.getpid()}-{secrets.token_hex(3)}"
