"""`nearcast topic set`."""

from typing import Annotated

import typer

from nearcast.cli.connect import operator_of
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.domain.slo import Slo
from nearcast.domain.topic import validate_topic
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run

_NONE = "none"


def set_topic(
    topic: Annotated[str, typer.Argument(help="The topic; nobody need use it yet.")],
    *,
    slo: Annotated[str, typer.Option(metavar="PROMISE", help="Its latency promise, like p95:40ms; or none.")],
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Promise that so many of a hundred messages arrive within a bound, from publish to receipt."""
    validate_topic(topic)
    wanted = None if slo == _NONE else Slo.parse(slo)
    raise typer.Exit(run(_set(load_config(config), topic, wanted, as_json)))


async def _set(config: Config, topic: str, slo: Slo | None, as_json: bool) -> None:
    async with operator_of(config) as operator:
        await operator.promise(topic, slo)
    if as_json:
        print_json({"topic": topic, "slo": None if slo is None else str(slo)})
        return
    print(f"{topic}: {'nothing is promised' if slo is None else f'{slo} is promised'}")
    if slo is not None and config.loop.policy != "epulsar":
        print(f"The loop's policy is {config.loop.policy!r}, which knows nothing of promises; 'epulsar' keeps them.")
