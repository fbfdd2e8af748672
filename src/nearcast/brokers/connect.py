"""Links to real servers, chosen by what kind of server an address names."""

import random
from collections.abc import Callable

from nearcast.brokers.link import Connect, Link, OnState
from nearcast.brokers.nats import dial_nats
from nearcast.brokers.patience import Patience
from nearcast.brokers.reconnecting import ReconnectingLink
from nearcast.brokers.redis import dial_redis
from nearcast.brokers.session import Session
from nearcast.domain.errors import ConfigError, LinkDown
from nearcast.transport.endpoint import NATS, REDIS, Endpoint

_DIAL = {NATS: dial_nats, REDIS: dial_redis}


def connector(
    endpoint_of: Callable[[str], Endpoint],
    *,
    name: str,
    patience: Patience | None = None,
    rng: random.Random | None = None,
) -> Connect:
    """What a process connects by. `name` is shown to the servers as the client's.

    `endpoint_of` is asked before every attempt, so that a broker may come back at another address. A ConfigError, from
    it for an unknown broker or about a file for TLS, becomes a LinkDown: the next attempt may find it mended.
    """

    async def connect(broker: str, on_state: OnState) -> Link:
        async def dial() -> Session:
            try:
                endpoint = endpoint_of(broker)
                user = "" if endpoint.user is None else f" as user {endpoint.user!r}"
                peer = f"broker {broker!r} at {endpoint.url}{user}"
                return await _DIAL[endpoint.kind](endpoint, name=name, peer=peer)
            except ConfigError as error:
                raise LinkDown(f"broker {broker!r} cannot be reached: {error}") from error

        return await ReconnectingLink(broker, dial, on_state, patience=patience, rng=rng).open()

    return connect
