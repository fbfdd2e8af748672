"""Where everybody is and what the time is, as it travels: probes and their echoes, and what is made of them.

One exchange gives both. A `Probe` is answered at once with an `Echo`, which says when it came and when it was answered:
the time that neither side held it is the round trip, and its middle is when both clocks are compared.
"""

from __future__ import annotations

import math

import msgspec

from nearcast.domain.broker import Addresses
from nearcast.domain.whereabouts import BrokerPlace

MOST_PLACED = 600
"""Topics in one `Placed`: of at most 800 bytes each, less than half of what a NATS server takes in one message."""

MOST_PEERS = 8
"""Brokers that one `Echo` names."""

MOST_RTTS = 16
"""Brokers whose round trips one message tells."""

_MOST_DIMENSIONS = 32


class Position(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A network coordinate: see `coords.coordinate`, which says which of them can be."""

    vec: tuple[float, ...]
    height: float
    adjustment: float
    error: float

    def __post_init__(self) -> None:
        if len(self.vec) > _MOST_DIMENSIONS:
            raise ValueError(f"a position of {len(self.vec)} dimensions; at most {_MOST_DIMENSIONS}")


class Probe(msgspec.Struct, frozen=True, tag=True):
    """client or agent -> agent: how far are you, and what is the time? `number` comes back.

    `passing`: the asker reaches other brokers through you; how far are those?
    """

    asker: str
    number: int
    passing: bool = False


class Echo(msgspec.Struct, frozen=True, tag=True):
    """The answer. Times are the fleet's as of `term`, give or take `uncertainty_s`; None: the agent's own clock.

    `wander_s`: by how much they may differ from what this agent told others in the last two minutes.
    `peers`: a few other brokers, with `addresses` of those that came later than the files which processes have.
    `rtts_s`: what this agent measured to others lately, for those who pass through here.
    """

    broker: str
    number: int
    received_s: float
    answered_s: float
    at: Position
    term: int = 0
    uncertainty_s: float | None = None
    peers: tuple[str, ...] = ()
    addresses: Addresses = ()
    wander_s: float = 0.0
    rtts_s: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        _must_be_rtts(f"agent of {self.broker!r}", self.rtts_s)
        if not -math.inf < self.received_s <= self.answered_s < math.inf:
            raise ValueError(f"received at {self.received_s} s, answered at {self.answered_s} s")
        if self.uncertainty_s is not None and not 0.0 <= self.uncertainty_s < math.inf:
            raise ValueError(f"an uncertainty of {self.uncertainty_s} s")
        if not 0.0 <= self.wander_s < math.inf:
            raise ValueError(f"a time that wanders by {self.wander_s} s")
        if len(self.peers) > MOST_PEERS:
            raise ValueError(f"{len(self.peers)} peers in one message; at most {MOST_PEERS}")


class Located(msgspec.Struct, frozen=True, tag=True):
    """client -> agent of a broker where it has topics.

    `rtt_s`: measured to this broker; None where it was not, lately. `clock_uncertainty_s`: by how much its send times
    may be wrong; None while they are those of its own wall clock. It has its time from the agent of `clock_via`, whose
    clock it knows to `clock_near_s`. `rtts_s`: to other brokers, as measured lately.
    """

    client: str
    at: Position
    rtt_s: float | None = None
    clock_uncertainty_s: float | None = None
    clock_via: str = ""
    clock_near_s: float = 0.0
    rtts_s: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        _must_be_rtts(f"client {self.client!r}", self.rtts_s)
        if self.rtt_s is not None and not 0.0 <= self.rtt_s < math.inf:
            raise ValueError(f"client {self.client!r}: a round trip of {self.rtt_s} s")
        wrong_s = 0.0 if self.clock_uncertainty_s is None else self.clock_uncertainty_s
        if not (0.0 <= wrong_s < math.inf and 0.0 <= self.clock_near_s < math.inf):
            raise ValueError(f"client {self.client!r}: an uncertainty of {wrong_s} s, {self.clock_near_s} s")


class PlacesOrder(msgspec.Struct, frozen=True, tag=True):
    """operator -> coordinator: where are the brokers, and the clients of this topic, if one is named?"""

    asker: str
    number: int
    topic: str = ""


class PlacesTold(msgspec.Struct, frozen=True, tag=True):
    """The answer: of each broker's topics only the one that was named."""

    number: int
    places: tuple[BrokerPlace, ...]


class Placed(msgspec.Struct, frozen=True, tag=True):
    """agent -> coordinator. A `round` tells of all topics, in so many `parts`; with 0, of some that changed since."""

    place: BrokerPlace
    round: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if len(self.place.topics) > MOST_PLACED:
            raise ValueError(f"places of {len(self.place.topics)} topics in one message; at most {MOST_PLACED}")
        for each in self.place.topics:
            if not (0.0 <= each.deviation_s < math.inf and 0.0 <= each.worst_s < math.inf):
                raise ValueError(f"topic {each.topic!r}: no times: {each.deviation_s}, {each.worst_s}")
            _must_be_rtts(f"topic {each.topic!r}", each.elsewhere)


def _must_be_rtts(whose: str, rtts_s: tuple[tuple[str, float], ...]) -> None:
    if len(rtts_s) > MOST_RTTS:
        raise ValueError(f"{whose}: {len(rtts_s)} round trips in one message; at most {MOST_RTTS}")
    for broker, rtt_s in rtts_s:
        if not 0.0 <= rtt_s < math.inf:
            raise ValueError(f"{whose}: a round trip of {rtt_s} s to {broker!r}")
