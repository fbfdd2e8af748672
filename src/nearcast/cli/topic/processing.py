"""What a topic's processor takes and what became of its messages, as commands show it."""

from nearcast.cli.loads import Loads
from nearcast.domain.load import Processed
from nearcast.domain.processor import Processor


def processing_at(topic: str, loads: Loads) -> dict[str, Processed]:
    """By broker, where its agent has a processor of the topic."""
    found = ((broker, each) for broker, loaded in loads.items() if loaded.load for each in loaded.load.report.processed)
    return {broker: each for broker, each in found if each.topic == topic}


def show_processor(processor: Processor) -> str:
    return (
        f"processed by {processor}: {processor.limit_ms:g} ms each at most, sees {processor.spool} before it;"
        f" {processor.queue} may wait, then {processor.when_full}"
    )


def show_processed(processed: Processed) -> str:
    interval = "nothing yet" if processed.interval_ms is None else f"{processed.interval_ms:.2f} ms a message"
    failed = (("raised", processed.raised), ("hung", processed.hung), ("died", processed.died))
    failures = "".join(f", {count:,} {name}" for name, count in failed if count)
    dropped = f", {processed.dropped:,} dropped" if processed.dropped else ""
    return f"{interval}, {processed.queue:,} waiting; {processed.processed:,} processed{failures}{dropped}"
