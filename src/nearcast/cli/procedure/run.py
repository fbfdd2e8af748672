"""`nearcast procedure run`."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.cli.pipeline.options import Conf, Master, parse_conf
from nearcast.domain.channel import ChannelSpec
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.session import LOCAL, session
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_procedure(
    name: Annotated[str, typer.Argument(help="The procedure.")],
    *,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A parameter's value, as JSON or as text.", show_default=False
        ),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Show so many rows of a query at most.")] = 1_000,
    master: Master = LOCAL,
    conf: Conf = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Run a procedure once, now."""
    values = dict(_value(each) for each in given or ())
    loaded = load_config(config)
    with session(f"procedure {name}", master, parse_conf(conf)) as spark:
        raise typer.Exit(run(_run(loaded, spark, name, values, most, as_json)))


def _value(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--set {text}: expected NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


async def _run(  # noqa: PLR0917  # private, and called in one place
    config: Config, spark: "SparkSession", name: str, values: dict[str, object], most: int, as_json: bool
) -> int:
    from nearcast.pipeline.procedures import ProcedureRunner  # noqa: PLC0415  # needs what comes with Spark

    async with pipeline_store_of(config) as store:
        catalog = await CatalogStore(store).read()
        procedure = catalog.procedure(name)
        bound = ChannelSpec(procedure.name, procedure.text, procedure.parameters).bind(values)
        names = {*procedure.datasets, *([procedure.target] if procedure.target else [])}
        tables = {each: Table(store, config.tables, catalog.dataset(each)) for each in sorted(names)}
        outcome = await ProcedureRunner(store, procedure, tables, spark=spark).run(dict(bound.values), most)
    if as_json:
        print_json({"procedure": procedure.name, "run": outcome.run, "rows": outcome.rows})
    elif outcome.run.error is not None:
        print(f"{procedure.name}: run {outcome.run.number} failed: {outcome.run.error}")
    else:
        print(f"{procedure.name}: run {outcome.run.number}, {outcome.run.rows} rows in {outcome.run.took_s:.3f} s")
        if outcome.rows:
            print_table(tuple(outcome.rows[0]), [tuple(map(str, row.values())) for row in outcome.rows])
    return 0 if outcome.run.error is None else 1
