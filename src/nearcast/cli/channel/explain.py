"""`nearcast channel explain`."""

from typing import Annotated

import typer

from nearcast.cli.channel.facts import EXECUTION, execution_row, facts_of, show_failure
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.progress import progress_of
from nearcast.pipeline.sql import Compiler
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def explain_channel(
    name: Annotated[str, typer.Argument(help="The channel.")],
    *,
    last: Annotated[int, typer.Option(min=1, help="So many executions at most.")] = 10,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what Spark runs for a channel: its query for all subscriptions, the plan, and the last executions."""
    raise typer.Exit(run(_explain(load_config(config), name, last, as_json)))


async def _explain(config: Config, name: str, last: int, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        channel = (await CatalogStore(store).read()).channel(name)
        progress = await progress_of(store, channel)
    spec = channel.spec
    compiler = Compiler(spec.query, spec.parameters, channel.datasets)
    text = compiler.compiled(channel.columns, frozenset(channel.bound)).joined.text
    executions = progress.recent[-last:]
    if as_json:
        facts = {"joined": text, "plan": progress.plan, "last": executions, "failed": progress.failures}
        print_json({**facts_of(channel), **facts})
        return
    print(f"{channel.name}, for all subscriptions at once:\n\n{text}\n")
    print(progress.plan.strip() or "It has not run yet: the plan is that of the last execution.")
    if executions:
        print_table(EXECUTION, [execution_row(each) for each in executions])
    for each in progress.failures[-last:]:
        print(f"failed {show_failure(each)}")
