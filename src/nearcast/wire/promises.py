"""Orders about promises, and what the leader answers: what is promised, and whether it is kept."""

from __future__ import annotations

import msgspec

MOST_STANDINGS = 2000
"""Topics in one answer: of some 200 bytes each, less than half of what a NATS server takes in one message."""

PART_BYTES = 500_000
"""Of a snapshot, in one message."""


class PromiseOrder(msgspec.Struct, frozen=True, tag=True):
    """Promise this of the topic from now on; `slo` as `Slo.parse` takes it, empty for no promise. `reason`: why."""

    asker: str
    number: int
    topic: str
    slo: str
    reason: str = ""


class StandingOrder(msgspec.Struct, frozen=True, tag=True):
    """How do promises stand? `topic` empty: of all topics that have one, and with `every` of all others that anybody
    uses, after them.
    """

    asker: str
    number: int
    topic: str = ""
    every: bool = False


class PromiseStanding(msgspec.Struct, frozen=True):
    """`worst_ms`: the worst case as clients are placed, None when nobody said where they are. `measured_ms`: the
    promised percentile (p95 without a promise) on `samples` messages, None when nothing was measured lately.
    `kept` None: nothing is promised, or nothing is known.
    """

    topic: str
    slo: str = ""
    worst_ms: float | None = None
    measured_ms: float | None = None
    samples: int = 0
    uncertainty_ms: float = 0.0
    kept: bool | None = None


class Standings(msgspec.Struct, frozen=True, tag=True):
    """`left_out`: so many more were asked for."""

    number: int
    topics: tuple[PromiseStanding, ...]
    left_out: int = 0


class SnapshotOrder(msgspec.Struct, frozen=True, tag=True):
    """What does a policy see now?"""

    asker: str
    number: int


class SnapshotPart(msgspec.Struct, frozen=True, tag=True):
    """Part `part` of `parts` of the snapshot's file, compressed (zlib). `refused`: why there is none."""

    number: int
    part: int
    parts: int
    content: bytes
    refused: str = ""
