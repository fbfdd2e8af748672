"""Where everybody is, as it travels."""

from __future__ import annotations

import math

import msgspec

from nearcast.domain.whereabouts import BrokerPlace

MOST_PLACED = 1000
"""Topics in one `Placed`: of at most 400 bytes each, less than half of what a NATS server takes in one message."""


class Placed(msgspec.Struct, frozen=True, tag=True):
    """agent -> coordinator. Topics beyond `MOST_PLACED` come in further messages of the same `round`."""

    place: BrokerPlace
    round: int = 0

    def __post_init__(self) -> None:
        if len(self.place.topics) > MOST_PLACED:
            raise ValueError(f"places of {len(self.place.topics)} topics in one message; at most {MOST_PLACED}")
        for each in self.place.topics:
            if not (0.0 <= each.deviation_s < math.inf and 0.0 <= each.worst_s < math.inf):
                raise ValueError(f"topic {each.topic!r}: no times: {each.deviation_s}, {each.worst_s}")
