"""`nearcast pub`."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile, Site
from nearcast.cli.output import print_json
from nearcast.client.open import open_client
from nearcast.domain.topic import validate_topic
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def publish(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    message: Annotated[
        str | None, typer.Argument(help="The message; without one, or with -, each line of standard input is one.")
    ] = None,
    *,
    count: Annotated[int, typer.Option(min=1, help="How often to send MESSAGE.")] = 1,
    rate: Annotated[float, typer.Option(min=0, help="Messages per second at most; 0: as fast as it goes.")] = 0.0,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for a route.")] = 10.0,
    site: Site = "",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Publish messages on a topic, wherever it is now."""
    validate_topic(topic)
    loaded = load_config(config)
    messages = _lines() if message in {None, "-"} else _repeated(message or "", count)
    raise typer.Exit(
        run(_publish(loaded, site, topic, messages=messages, rate=rate, timeout_s=timeout_s, as_json=as_json))
    )


async def _publish(
    config: Config,
    site: str,
    topic: str,
    *,
    messages: AsyncIterator[bytes],
    rate: float,
    timeout_s: float,
    as_json: bool,
) -> None:
    sent = 0
    begun_s = time.monotonic()
    async with open_client(config, site=site) as client:
        async for payload in messages:
            if rate and (early_s := begun_s + sent / rate - time.monotonic()) > 0:
                await asyncio.sleep(early_s)
            await client.publish(topic, payload, timeout_s=timeout_s)
            sent += 1
    seconds = time.monotonic() - begun_s
    if as_json:
        print_json({"topic": topic, "published": sent, "seconds": round(seconds, 6)})
    else:
        print(f"published {sent} on {topic} in {seconds:.2f} s", file=sys.stderr)


async def _repeated(message: str, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield message.encode()


async def _lines() -> AsyncIterator[bytes]:
    """Read in a thread: a terminal may take its time, and leases are renewed meanwhile."""
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        yield line.rstrip(b"\r\n")
