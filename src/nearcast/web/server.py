"""What a process serves over HTTP while it runs: a coordinator everything, an agent and a pipeline their metrics."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ipaddress import ip_address

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearcast.coordinator import Operator
from nearcast.coordinator.journal import Journal
from nearcast.domain.errors import ConfigError
from nearcast.transport.config import Config
from nearcast.transport.crew import Crew
from nearcast.transport.endpoint import Tls
from nearcast.transport.http import parse_address
from nearcast.transport.tokens import Tokens
from nearcast.transport.web import serving
from nearcast.web.api import Api
from nearcast.web.app import application
from nearcast.web.channels import ChannelReader
from nearcast.web.chronicle import Chronicle
from nearcast.web.lookout import Lookout
from nearcast.web.metrics import ChannelMetrics, FleetMetrics, MoveMetrics, RejectMetrics, text_of
from nearcast.wire.rejects import Rejects

_CHANNELS_S = 10.0
_PLAIN = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def serving_all(
    name: str,
    address: str,
    config: Config,
    *,
    open_operator: Callable[[], Operator],
    journal: Journal,
    rejects: Rejects,
) -> AsyncIterator[str]:
    """API, dashboard and metrics of the coordinator `name`, until the block is left. Gives the address.

    Raises ConfigError when it cannot listen there, and for an address that others reach while anybody is let in.
    """
    tokens = _tokens_for(address, config)
    crew, closing, registry = Crew(), asyncio.Event(), _registry()
    moves = MoveMetrics(registry, time.time())
    lookout = Lookout(open_operator, config.loop.policy)
    chronicle = Chronicle(lookout.changed, moves.decided)
    channels = ChannelReader(config)
    for each in (FleetMetrics(lookout), RejectMetrics(rejects), ChannelMetrics(lambda: channels.known)):
        registry.register(each)
    api = Api(name, lookout, chronicle, journal=journal, channels=channels, crew=crew)
    crew.start(lookout.run(), "looks")
    crew.start(chronicle.follow(journal), "decisions are followed")
    crew.start(channels.refresh(_CHANNELS_S), "channels are read")
    try:
        app = application(api, closing, lambda: text_of(registry), tokens)
        async with serving(app, address, config.web.tls) as url:
            try:
                yield url
            finally:
                closing.set()
    finally:
        await crew.close()
        await channels.close()


def _tokens_for(address: str, config: Config) -> Tokens | None:
    if config.web.tokens is not None:
        tokens = Tokens(config.web.tokens)
        tokens.known()  # a file that cannot be used is told now
        return tokens
    host, _ = parse_address(address)
    try:
        near = ip_address(host).is_loopback
    except ValueError:
        near = host == "localhost"
    if not near:
        raise ConfigError(
            f"{config.path}: web.tokens_file is missing, and {address} is not on loopback: anybody who reaches it"
            " could move topics and drain brokers"
        )
    return None


def serving_metrics(address: str, tls: Tls | None, *collectors: Collector) -> AbstractAsyncContextManager[str]:
    """Raises ConfigError when it cannot listen there."""
    registry = _registry()
    for each in collectors:
        registry.register(each)

    async def metrics(_request: Request) -> Response:
        return Response(text_of(registry), media_type=_PLAIN)

    return serving([Route("/metrics", metrics)], address, tls)


def _registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry
