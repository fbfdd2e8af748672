"""`nearcast topic show`."""

from typing import Annotated

import typer

from nearcast.cli.connect import records_of
from nearcast.cli.loads import handovers_of, loads_now, show_handover
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.cli.places import places_of, show_place, topic_places
from nearcast.cli.topic.processing import processing_at, show_processed, show_processor
from nearcast.cli.topic.promise import promise_facts, standings_of
from nearcast.cli.topic.record import implied_facts, record_facts
from nearcast.domain.log import Segment
from nearcast.domain.topic import validate_topic
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def show_topic(
    topic: Annotated[str, typer.Argument(help="The topic.")], config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Show where one topic is, how far its move has come, and what its moves have cost the agents."""
    validate_topic(topic)
    raise typer.Exit(run(_show(load_config(config), topic, as_json)))


async def _show(config: Config, topic: str, as_json: bool) -> None:
    async with records_of(config) as records:
        found = {record.topic: record for record in await records.load()}.get(topic)
        ring = await records.load_ring() or config.ring
        slo = records.promises.get(topic)
    facts = record_facts(found) if found is not None else implied_facts(topic, ring)
    loads = await loads_now(config)
    handovers, processing = handovers_of(topic, loads), processing_at(topic, loads)
    places = topic_places(await places_of(config, topic))
    standing = (await standings_of(config, topic)).get(topic)
    facts |= promise_facts(None if slo is None else str(slo), standing)
    if as_json:
        print_json({**facts, "handovers": handovers, "places": places, "processing": processing})
        return
    brokers = ", ".join(facts["brokers"]) if isinstance(facts["brokers"], tuple) else ""
    why = "by the ring" if facts["by_ring"] else f"epoch {facts['epoch']}, {facts['phase']}"
    print(f"{topic}: {facts['strategy']} on {brokers} ({why})")
    if slo is not None or standing is not None:
        print(f"  {_promise(facts)}")
    if found is not None:
        for route in found.routes[:-1]:
            print(f"  still draining: epoch {route.epoch}, {route.strategy} on {', '.join(route.brokers)}")
        if facts["moving_to"]:
            newest = found.newest
            print(f"  preparing: epoch {newest.epoch}, {newest.strategy} on {', '.join(newest.brokers)}")
        if found.log is not None:
            spec = found.log.spec
            print(f"  persistent: {spec.quorum} of {spec.replicas} replicas acknowledge; segments, the oldest first:")
            for segment in found.log.segments:
                print(f"    epoch {segment.epoch} at {segment.broker}, {_end(segment)}")
        if found.lost:
            print(f"  agents that do not answer: {', '.join(found.lost)}")
        if found.current.processor is not None:
            print(f"  {show_processor(found.current.processor)}")
    for broker, processed in processing.items():
        print(f"  processed at {broker}: {show_processed(processed)}")
        for error in processed.errors:
            print(f"    last that {error}")
    for place in places:
        print(f"  {show_place(place)}")
    for each in handovers:
        print(f"  its moves cost the agent of {each.broker}: {show_handover(each)}")


def _promise(facts: dict[str, object]) -> str:
    text = f"promised: {facts['slo']}" if facts["slo"] else "nothing is promised"
    if facts["worst_ms"] is not None:
        text += f"; predicted worst case {facts['worst_ms']:.1f} ms"
    if facts["measured_ms"] is not None:
        text += f"; measured {facts['measured_ms']:.1f} ms on {facts['samples']} messages"
    kept = facts["kept"]
    return text if kept is None else f"{text}: {'kept' if kept else 'BROKEN'}"


def _end(segment: Segment) -> str:
    if segment.end is None:
        return "open"
    return "empty" if segment.empty else f"sealed at record {segment.end}"
