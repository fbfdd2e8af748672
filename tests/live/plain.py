"""Clients of the servers' own libraries, which know nothing of nearcast."""

import nats
import redis.asyncio
from nats.aio.client import Client

from nearcast.transport.endpoint import Endpoint


async def plain_nats(at: Endpoint) -> Client:
    return await nats.connect(at.url, user=at.user, password=at.password, tls=at.tls and at.tls.client_context())


def plain_redis(at: Endpoint) -> redis.asyncio.Redis:
    return redis.asyncio.Redis(
        host=at.host,
        port=at.port,
        username=at.user,
        password=at.password,
        ssl=at.tls is not None,
        ssl_ca_certs=str(at.tls.ca_file) if at.tls is not None else None,
    )
