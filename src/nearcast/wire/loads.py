"""What is counted, as it travels: a client's counts to the agent of a broker, an agent's report to the coordinator.

Both are signed like every control message, and neither is larger than a server takes: counts are split over several
messages, a report names its busiest topics and sums up the rest.
"""

from __future__ import annotations

import math

import msgspec

from nearcast.domain.topic import validate_topic

MOST_COUNTED = 1000
"""Topics in one `Counts`: of at most 200 bytes each, a quarter of what a NATS server takes in one message."""

MOST_SECONDS = 3600.0
_MOST_MESSAGES_PER_S = 1e8
_MOST_BYTES_PER_S = 1e11


class TopicCount(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Frames and their bytes, with our header, without the server's own framing."""

    topic: str
    publications: int = 0
    bytes_in: int = 0
    deliveries: int = 0
    bytes_out: int = 0


class Counts(msgspec.Struct, frozen=True, tag=True):
    """What one client sent to this broker and got from it in the last `seconds`; of topics without traffic, nothing."""

    client: str
    seconds: float
    topics: tuple[TopicCount, ...]

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds <= MOST_SECONDS:
            raise ValueError(f"counts over {self.seconds} s; expected more than 0 and at most {MOST_SECONDS:g}")
        if len(self.topics) > MOST_COUNTED:
            raise ValueError(f"counts of {len(self.topics)} topics in one message; at most {MOST_COUNTED}")
        most = math.ceil(_MOST_MESSAGES_PER_S * self.seconds)
        most_bytes = math.ceil(_MOST_BYTES_PER_S * self.seconds)
        for each in self.topics:
            validate_topic(each.topic)
            if not (0 <= each.publications <= most and 0 <= each.deliveries <= most):
                raise ValueError(f"topic {each.topic!r}: no client counts so many messages in {self.seconds} s: {each}")
            if not (0 <= each.bytes_in <= most_bytes and 0 <= each.bytes_out <= most_bytes):
                raise ValueError(f"topic {each.topic!r}: no client counts so many bytes in {self.seconds} s: {each}")
