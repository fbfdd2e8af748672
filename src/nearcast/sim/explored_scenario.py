"""What the explorer is asked to explore: who is there, what they do, what may fail."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.timing import Timing
from nearcast.domain.route import Strategy

TOPIC = "t"

# Far apart, so that one kind of timer is over before the next begins; no beats, whose only use is to show a dead path.
TIMING = Timing(
    lease_s=1000.0,
    linger_s=1.0,
    patience_s=8.0,
    merge_s=0.0,
    merge_client_s=0.0,
    retry_s=50.0,
    beat_s=math.inf,
    idle_s=20.0,
    transit_s=0.0,
)

Place = tuple[Strategy, tuple[str, ...]]
"""A route without its epoch."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Who is there, and what may happen.

    `moves` are begun in order, at any time; `faults` happen once each, at any time, alone or before their
    counterpart: "crash X" and "restart X" (a broker or an agent), "crash P0", "crash C" (the next leader goes on),
    "replace C" (and the last words of the one before are still under way), "cut X-H0" (a connection; it comes back at
    any time), "isolate A" and "rejoin A" (an agent and the coordinator), "sleep X" and "wake X" (X takes nothing in,
    and time passes it by).

    With a `script`, workload and faults happen in its order: each when nothing is under way, after "~" at any time,
    after "!" when nothing is under way and no time has passed, after "=" when all timers have run out too.
    """

    about: str
    brokers: tuple[str, ...]
    moves: tuple[Place, ...]
    start: Place | None = None  # by default: single, on the first broker
    messages: int = 1
    publishers: tuple[int, ...] = (1,)  # their ids
    subscriber_key: int = 0  # its sticky choice among several brokers
    joins: bool = False  # the subscriber is not there at the start
    opens: bool = False  # the publishers are not there at the start
    eager: bool = True  # notices are sent at once, not with the next publication
    one_by_one: bool = False  # a move begins only when nothing is under way
    script: tuple[str, ...] = ()
    coarse: bool = False  # agents hear of a phase at once, and answer the same until the next: fewer states
    next_ring: tuple[str, ...] = ()  # the ring grows to these brokers at any time; no route names the topic before
    concurrent: bool = False  # brokers match, then deliver to one connection after another
    to_the_end: bool = False  # until the old brokers are released, not only until everybody has left them
    faults: tuple[str, ...] = ()
    rules: Rules = ALL_ON
    timing: Timing = TIMING
    topic: str = TOPIC  # its name decides which broker is its directory
    beside: bool = True  # an agent hears its own broker at once; its lag is then in the paths it forwards over
    reduced: bool = True  # leave out orders that make no difference
    walks: int = 0  # too many states to visit: as many random runs instead

    @property
    def first_ring(self) -> tuple[str, ...]:
        return self.first[1] if self.next_ring else self.brokers

    @property
    def first(self) -> Place:
        return self.start or (Strategy.SINGLE, (self.brokers[0],))
