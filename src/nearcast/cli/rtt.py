"""`nearcast rtt`."""

import asyncio
import statistics
from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile, Site
from nearcast.cli.output import print_json, print_table
from nearcast.cli.places import between, places_of
from nearcast.cli.reach import round_trips
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def measure_rtt(
    brokers: Annotated[list[str] | None, typer.Argument(help="Which brokers; by default all.")] = None,
    *,
    count: Annotated[int, typer.Option(min=1, help="Round trips per broker.")] = 10,
    site: Site = "",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure the round trip to brokers, from here or as from a site; between them, show what their agents measured.

    Exit code 1 when one does not answer.
    """
    loaded = load_config(config)
    endpoint_of = loaded.endpoints(site)
    for broker in brokers or ():
        endpoint_of(broker)
    raise typer.Exit(run(_measure(loaded, site, tuple(brokers or loaded.brokers), count, as_json)))


async def _measure(config: Config, site: str, brokers: tuple[str, ...], count: int, as_json: bool) -> int:
    found = await asyncio.gather(*(round_trips(config, site, broker, count) for broker in brokers))
    places = await places_of(config)
    rows = [
        _facts(broker, trips) | {"between": between(broker, brokers, places)}
        for broker, trips in zip(brokers, found, strict=True)
    ]
    if as_json:
        print_json(rows)
    else:
        columns = ("broker", "min_ms", "median_ms", "max_ms", "error")
        print_table(columns, [["" if row[column] is None else str(row[column]) for column in columns] for row in rows])
        pairs = [
            (one, each.broker, str(each.predicted_ms), "" if each.measured_ms is None else str(each.measured_ms))
            for number, one in enumerate(brokers)
            for each in between(one, brokers[number + 1 :], places)
        ]
        if pairs:
            print_table(("broker", "broker", "predicted_ms", "measured_ms"), pairs)
    return int(any(row["error"] for row in rows))


def _facts(broker: str, trips: list[float] | str) -> dict[str, object]:
    if isinstance(trips, str):
        return {"broker": broker, "min_ms": None, "median_ms": None, "max_ms": None, "error": trips}
    smallest, median, largest = (round(each * 1e3, 3) for each in (min(trips), statistics.median(trips), max(trips)))
    return {"broker": broker, "min_ms": smallest, "median_ms": median, "max_ms": largest, "error": None}
