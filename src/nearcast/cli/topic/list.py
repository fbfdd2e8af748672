"""`nearcast topic list`."""

import typer

from nearcast.cli.connect import records_of
from nearcast.cli.loads import load_facts, loads_now, topic_loads
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.cli.topic.promise import KEPT, promise_facts, standings_of
from nearcast.cli.topic.record import implied_facts, record_facts
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run

_COLUMNS = ("topic", "strategy", "brokers", "epoch", "phase")
_RATES = {
    "publications_hz": "in/s",
    "deliveries_hz": "out/s",
    "bytes_out_per_s": "bytes/s",
    "publishers": "pubs",
    "subscribers": "subs",
}
_PROMISES = {"slo": "promise", "worst_ms": "worst ms", "measured_ms": "measured ms", "kept": ""}


def list_topics(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """List the topics that have a route or a promise, or are in use; every other is where the ring puts it."""
    raise typer.Exit(run(_list(load_config(config), as_json)))


async def _list(config: Config, as_json: bool) -> None:
    async with records_of(config) as records:
        found = {record.topic: record_facts(record) for record in await records.load()}
        ring = await records.load_ring() or config.ring
        slos = {topic: str(slo) for topic, slo in records.promises.items()}
    loads = topic_loads(await loads_now(config))
    for topic in sorted({*loads, *slos}):
        found.setdefault(topic, implied_facts(topic, ring))
    standings = await standings_of(config) if slos else {}
    rows = [
        {
            **facts,
            **load_facts(loads.get(topic, []), str(facts["strategy"])),
            **promise_facts(slos.get(topic), standings.get(topic)),
        }
        for topic, facts in found.items()
    ]
    if as_json:
        print_json(rows)
    elif not rows:
        print("No topic has a route of its own; each is where the ring puts it (`nearcast topic show TOPIC`).")
    else:
        promises = _PROMISES if slos else {}
        columns = (*_COLUMNS, *_RATES, *promises)
        names = (*_COLUMNS, *_RATES.values(), *promises.values())
        print_table(names, [[_cell(facts[column]) for column in columns] for facts in rows])


def _cell(value: object) -> str:
    if value is None or isinstance(value, bool):
        return KEPT[value]
    if isinstance(value, float):
        return f"{value:,.1f}".removesuffix(".0")
    return ", ".join(value) if isinstance(value, tuple) else str(value)
