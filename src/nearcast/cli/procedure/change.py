"""`nearcast procedure create` and `drop`."""

import time
from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile, parse_seconds, read_text
from nearcast.cli.output import print_json
from nearcast.domain.channel import Parameter
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.runs import forget
from nearcast.pipeline.statement import parsed
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def create_procedure(
    name: Annotated[str, typer.Argument(help="Its name.")],
    *,
    sql: Annotated[
        str, typer.Option(metavar="STATEMENT", help="INSERT INTO ... SELECT, DELETE FROM ... WHERE, SELECT; or @FILE.")
    ],
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="'NAME TYPE'", help="A parameter, like 'kind STRING'; one for each.", show_default=False),
    ] = None,
    period: Annotated[str | None, typer.Option(metavar="TIME", help="Run it so often, like 10m or 24h.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a procedure: `procedure run` runs it, or the pipeline does every period."""
    parameters = tuple(map(Parameter.parse, param or ()))
    period_s = parse_seconds("--period", period)
    raise typer.Exit(run(_create(load_config(config), name, read_text("--sql", sql), parameters, period_s, as_json)))


def drop_procedure(
    name: Annotated[str, typer.Argument(help="The procedure.")], config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Drop a procedure. What it has done stays."""
    raise typer.Exit(run(_drop(load_config(config), name, as_json)))


async def _create(  # noqa: PLR0917  # private, and called in one place
    config: Config, name: str, text: str, parameters: tuple[Parameter, ...], period_s: float | None, as_json: bool
) -> None:
    async with pipeline_store_of(config) as store:
        catalogs = CatalogStore(store)
        datasets = (await catalogs.read()).datasets
        new = parsed(name, text, parameters, datasets, time.time(), period_s=period_s)
        await catalogs.change(lambda now: now.with_procedure(new))
    if as_json:
        print_json({"procedure": new.name, "id": new.id, "verb": new.verb, "target": new.target, "period_s": period_s})
    else:
        when = "when it is told to" if period_s is None else f"every {period_s:g} s"
        print(f"{new.name}: {new.verb}{f' of {new.target}' if new.target else ''}, runs {when}")


async def _drop(config: Config, name: str, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalogs = CatalogStore(store)
        gone = (await catalogs.read()).procedure(name)
        await catalogs.change(lambda now: now.without_procedure(name))
        await forget(store, gone)
    if as_json:
        print_json({"procedure": gone.name, "id": gone.id, "dropped": True})
    else:
        print(f"{gone.name}: dropped")
