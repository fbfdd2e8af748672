"""`nearcast sub`."""

import asyncio
import base64
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from nearcast.cli.options import ConfigFile, Site
from nearcast.client import Client, open_client
from nearcast.client.log_subscription import Since, parse_since
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.topic import validate_topic
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run_until_stopped


def subscribe(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    *,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many messages.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE", help="Of a persistent topic: first, new, a time (seconds since 1970), or a position."
        ),
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="End after so many seconds.")] = None,
    site: Site = "",
    config: ConfigFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per message or report, a line each.")
    ] = False,
) -> None:
    """Print what is published on a topic, wherever it is now, until Ctrl-C.

    What may be missing is reported: on standard error, or as JSON objects among the messages.
    """
    validate_topic(topic)
    begin = None if since is None else parse_since(since)
    loaded = load_config(config)

    def serve(stopped: asyncio.Event) -> Coroutine[Any, Any, int]:
        return _serve(loaded, site, topic, since=begin, count=count, seconds=seconds, as_json=as_json, stopped=stopped)

    raise typer.Exit(run_until_stopped(serve))


async def _serve(
    config: Config,
    site: str,
    topic: str,
    *,
    since: Since | None,
    count: int | None,
    seconds: float | None,
    as_json: bool,
    stopped: asyncio.Event,
) -> int:
    report = _report_json if as_json else _report
    async with open_client(config, site=site) as client:
        show = partial(_show_json, client) if as_json else _show
        subscription = await client.subscribe(topic, on_report=report, since=since)
        print(f"subscribed to {topic}", file=sys.stderr, flush=True)

        async def take() -> None:
            left = count
            async for message in subscription:
                show(message)
                if left is not None:
                    left -= 1
                    if left == 0:
                        return

        taking = asyncio.create_task(take())
        stopping = asyncio.create_task(stopped.wait())
        done, _ = await asyncio.wait({taking, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in (taking, stopping):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return int(count is not None and taking not in done and not stopped.is_set())


def _show(message: Message) -> None:
    sys.stdout.buffer.write(message.payload + b"\n")
    sys.stdout.buffer.flush()


def _show_json(client: Client, message: Message) -> None:
    facts: dict[str, object] = {"topic": message.topic, "sequenced": message.sequenced}
    if message.sequenced:
        facts |= {
            "publisher": f"{message.publisher:016x}",
            "seq": message.seq,
            "latency_ms": round((client.time_ns() - message.sent_ns) / 1e6, 3),
        }
    if message.position is not None:
        facts["position"] = str(message.position)
    try:
        facts["text"] = message.payload.decode()
    except UnicodeDecodeError:
        facts["base64"] = base64.b64encode(message.payload).decode()
    print(msgspec.json.encode(facts).decode(), flush=True)


def _report(what: Gap | Discontinuity) -> None:
    print(describe(what), file=sys.stderr, flush=True)


def _report_json(what: Gap | Discontinuity) -> None:
    print(msgspec.json.encode({type(what).__name__.lower(): what}).decode(), flush=True)


def describe(what: Gap | Discontinuity) -> str:
    """A report, for people."""
    match what:
        case Gap(topic, publisher, first, last):
            begin = "the start" if first is None else str(first)
            end = "where it vanished" if last is None else str(last)
            return f"gap on {topic}: messages of publisher {publisher:016x} from {begin} to {end} will not come"
        case Discontinuity(topic, broker, from_s, to_s):
            begin = time.strftime("%H:%M:%S", time.localtime(from_s))
            end = "now on" if to_s is None else time.strftime("%H:%M:%S", time.localtime(to_s))
            where = "" if broker == "*" else f" at {broker}"
            return f"discontinuity on {topic}{where}: from {begin} to {end} messages may have been missed"
