"""Spools in step: what one home spools of a topic is copied to the others who process it, beside the notifications.

Copies travel from agent to agent, off the topic, some together: what subscribers get never waits for them. A home uses
what was spooled at another one `Timing.copy_s` and one way between the two brokers later. Whoever comes to process the
topic, or was cut off, is handed the whole spool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nearcast.domain.message import Message
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Copies, Spooled

_MOST_BYTES = 500_000  # in one message with others; a larger one goes alone
_MOST = 1000


def keep_in_step(route: Route) -> tuple[str, ...]:
    """The brokers whose spools of the topic are to have the same messages."""
    looks_back = route.processor is not None and route.processor.spool > 0
    return route.takes if looks_back and route.strategy is Strategy.HOMED else ()


def copies_of(topic: str, messages: Iterable[Message]) -> Iterator[Copies]:
    part: list[Spooled] = []
    size_bytes = 0
    for each in messages:
        if part and (len(part) >= _MOST or size_bytes + len(each.payload) > _MOST_BYTES):
            yield Copies(topic, tuple(part))
            part, size_bytes = [], 0
        part.append(Spooled(each.publisher, each.seq, each.sent_ns, each.payload))
        size_bytes += len(each.payload)
    if part:
        yield Copies(topic, tuple(part))


def messages_of(copies: Copies) -> list[Message]:
    return [Message(copies.topic, each.payload, each.publisher, each.seq, each.sent_ns) for each in copies.messages]
