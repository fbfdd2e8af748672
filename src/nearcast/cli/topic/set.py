"""`nearcast topic set`."""

from typing import Annotated

import typer

from nearcast.cli.api import CoordinatorApi, api_of, because, topic_path
from nearcast.cli.options import AsJson, ConfigFile, Reason, parse_seconds
from nearcast.cli.output import print_json
from nearcast.domain.log import LogSpec
from nearcast.domain.processor import Language, Processor, WhenFull, dead_letter_topic
from nearcast.domain.slo import Slo
from nearcast.domain.topic import validate_topic
from nearcast.processing.sql import Query
from nearcast.transport.process import run
from nearcast.web import asked, models

_NONE = "none"


def set_topic(
    topic: Annotated[str, typer.Argument(help="The topic; nobody need use it yet.")],
    *,
    slo: Annotated[
        str | None, typer.Option(metavar="PROMISE", help="Its latency promise, like p95:40ms; or none.")
    ] = None,
    persistent: Annotated[
        bool, typer.Option("--persistent", help="Keep its messages; of one that is persistent, change how long.")
    ] = False,
    replicas: Annotated[int, typer.Option(help="Servers of the broker's site that keep each message: 1, 3 or 5.")] = 3,
    quorum: Annotated[
        int | None, typer.Option(help="Servers that have it before it is acknowledged: their majority.")
    ] = None,
    retain: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep messages so long, like 90s, 30m, 24h or 7d.")
    ] = None,
    retain_bytes: Annotated[int | None, typer.Option(help="Keep so many bytes at least of the newest.")] = None,
    retain_messages: Annotated[int | None, typer.Option(help="Keep so many records at least of the newest.")] = None,
    processor: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CALLABLE", help="Process its messages with this Python callable; or none."),
    ] = None,
    sql: Annotated[
        str | None, typer.Option(metavar="SELECT", help="Process them with SQL over the tables message and spool.")
    ] = None,
    spool: Annotated[int, typer.Option(help="How many messages before each one its processor sees.")] = 0,
    limit_ms: Annotated[
        float, typer.Option("--limit", metavar="MS", help="How long processing one message may take.")
    ] = 1000.0,
    queue: Annotated[int, typer.Option(help="How many messages may wait to be processed at a broker.")] = 1000,
    when_full: Annotated[
        WhenFull, typer.Option(help="Leave out what finds the queue full, or have publishers wait.")
    ] = WhenFull.DROP,
    reason: Reason = "",
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the leader.")] = 30.0,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Promise that so many of a hundred messages arrive within a bound, have a topic's messages kept, or processed."""
    validate_topic(topic)
    processed = processor is not None or sql is not None
    if slo is None and not persistent and not processed:
        raise typer.BadParameter("nothing to set: give --slo PROMISE, --persistent, --processor or --sql")
    made = _processor(processor, sql, spool, limit_ms, queue, when_full) if processed else None
    spec = LogSpec(replicas, parse_seconds("--retain", retain), retain_bytes, retain_messages) if persistent else None
    if spec is not None and quorum is not None:
        spec.must_be_quorum(quorum)
    wanted = None if slo in {_NONE, None} else Slo.parse(slo or "")
    api, why = api_of(config), because(reason)
    if spec is not None:
        run(_keep(api, topic, spec, why, timeout_s, as_json))
    if processed:
        run(_process(api, topic, made, why, timeout_s, as_json))
    if slo is not None:
        run(_set(api, topic, wanted, why, timeout_s, as_json))


def _processor(  # noqa: PLR0917  # the command's own options
    name: str | None, sql: str | None, spool: int, limit_ms: float, queue: int, when_full: WhenFull
) -> Processor | None:
    if name is not None and sql is not None:
        raise typer.BadParameter("give --processor or --sql, not both")
    if name == _NONE:
        return None
    if sql is not None:
        Query(sql)  # what cannot be prepared is refused here, with what SQLite says of it
        return Processor(Language.SQL, sql, spool, limit_ms, queue, when_full)
    return Processor(Language.PYTHON, name or "", spool, limit_ms, queue, when_full)


async def _process(  # noqa: PLR0917  # the command's own options
    api: CoordinatorApi, topic: str, processor: Processor | None, reason: str, timeout_s: float, as_json: bool
) -> None:
    order = asked.Process("", reason=reason)
    if processor is not None:
        order = asked.Process(
            processor.code,
            processor.language,
            processor.spool,
            processor.limit_ms,
            processor.queue,
            processor.when_full,
            reason,
        )
    epoch = (await api.order(topic_path(topic, "processor"), order, timeout_s=timeout_s)).epoch
    if as_json:
        print_json({"topic": topic, "processor": processor, "epoch": epoch})
    elif processor is None:
        print(f"{topic}: not processed any more since epoch {epoch}")
    else:
        print(
            f"{topic}: processed by {processor} since epoch {epoch}; what it cannot goes to {dead_letter_topic(topic)}"
        )


async def _set(  # noqa: PLR0917  # the command's own options
    api: CoordinatorApi, topic: str, slo: Slo | None, reason: str, timeout_s: float, as_json: bool
) -> None:
    order = asked.Promise("" if slo is None else str(slo), reason)
    await api.order(topic_path(topic, "promise"), order, timeout_s=timeout_s)
    if as_json:
        print_json({"topic": topic, "slo": None if slo is None else str(slo)})
        return
    print(f"{topic}: {'nothing is promised' if slo is None else f'{slo} is promised'}")
    policy = (await api.get("status", models.Status)).policy
    if slo is not None and policy != "epulsar":
        print(f"The loop's policy is {policy!r}, which knows nothing of promises; 'epulsar' keeps them.")


async def _keep(  # noqa: PLR0917  # the command's own options
    api: CoordinatorApi, topic: str, spec: LogSpec, reason: str, timeout_s: float, as_json: bool
) -> None:
    order = asked.Keep(spec.replicas, spec.retain_s, spec.retain_bytes, spec.retain_messages, reason)
    epoch = (await api.order(topic_path(topic, "log"), order, timeout_s=timeout_s)).epoch
    if as_json:
        print_json({"topic": topic, "persistent": True, "epoch": epoch, "quorum": spec.quorum, "spec": spec})
    else:
        print(
            f"{topic}: persistent since epoch {epoch}; a message is acknowledged when {spec.quorum} of"
            f" {spec.replicas} replicas have it on disk"
        )
