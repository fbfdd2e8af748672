"""A topic's record, as commands print it."""

from nearcast.domain.record import TopicRecord
from nearcast.domain.ring import Ring


def record_facts(record: TopicRecord) -> dict[str, object]:
    return {
        "topic": record.topic,
        "strategy": record.current.strategy.value,
        "brokers": record.current.brokers,
        "epoch": record.told,
        "phase": record.phase.value,
        "moving_to": record.newest.brokers if record.newest.epoch != record.told else None,
        "older_routes": len(record.routes) - 1,
        "lost_agents": record.lost,
        "by_ring": False,
        "log": record.log,
        "processor": record.current.processor,
    }


def implied_facts(topic: str, ring: Ring) -> dict[str, object]:
    """Of a topic that no route names: the ring's owner has it."""
    return {
        "topic": topic,
        "strategy": "single",
        "brokers": (ring.owner(topic),),
        "epoch": 0,
        "phase": "done",
        "moving_to": None,
        "older_routes": 0,
        "lost_agents": (),
        "by_ring": True,
        "log": None,
        "processor": None,
    }
