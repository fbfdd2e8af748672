"""The configurations that the explorer runs, by name."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from nearcast.control.rules import ALL_ON
from nearcast.domain.route import Strategy
from nearcast.sim.explored_scenario import TIMING, Place, Scenario

_TWO = ("H0", "H1")
_THREE = ("H0", "H1", "H2")


def _on(*brokers: str) -> Place:
    return (Strategy.SINGLE, brokers)


_PLACES: dict[str, Place] = {
    "single": _on("H0"),
    "all_subscribers": (Strategy.ALL_SUBSCRIBERS, _TWO),
    "all_publishers": (Strategy.ALL_PUBLISHERS, _TWO),
    "homed": (Strategy.HOMED, _TWO),
}

_ONE_MOVE = Scenario("one move, one message", _TWO, (_on("H1"),))
_THREE_BROKERS = Scenario("one move among three brokers; the third is the directory", _THREE, (_on("H1"),), topic="b")
_CHAIN = Scenario("a second move before the first has drained", _THREE, (_on("H1"), _on("H2")), one_by_one=True)
_JOINS = Scenario("the subscriber joins during the move", _TWO, (_on("H1"),), joins=True)

_LONG = replace(TIMING, lease_s=100.0, retry_s=60.0, idle_s=math.inf)
"""For faults that last: few timers run out before a lease does, and idle publishers are silent."""

_LASTING = Scenario("", _TWO, (_on("H1"),), to_the_end=True, coarse=True, timing=_LONG)


def _changes() -> dict[str, Scenario]:
    """Every change of strategy, for each sticky choice of publisher and subscriber that differs."""
    out: dict[str, Scenario] = {}
    for before, after in itertools.permutations(_PLACES, 2):
        for publisher, key in itertools.product((1, 2), (0, 1)):
            about = f"from {before} to {after}; publisher {publisher}, subscriber {key}"
            scenario = Scenario(
                about, _TWO, (_PLACES[after],), start=_PLACES[before], publishers=(publisher,), subscriber_key=key
            )
            out[f"{before} to {after} {publisher}{key}"] = scenario
    return out


_WALKS = 50_000

_STAGED = _LASTING
"""For faults that must meet in a certain order: every interleaving of what is under way, few of what happens when."""

_SCRIPTED: dict[str, Scenario] = {
    "agent restarts while the publisher lags": replace(
        _STAGED,
        about="a publisher sleeps through the move, and the agent that would forward for it restarts",
        script=("sleep P0", "move C", "crash AH0", "~wake P0", "~publish P0", "~restart AH0"),
        faults=("sleep P0", "wake P0", "crash AH0", "restart AH0"),
    ),
    "publisher asleep and unknown": replace(
        _STAGED,
        about="an agent restarts and has forgotten a publisher that sleeps until its broker is released",
        script=("sleep P0", "~crash AH0", "~restart AH0", "=move C", "=wake P0", "~publish P0"),
        faults=("sleep P0", "wake P0", "crash AH0", "restart AH0"),
    ),
    "agent isolated, subscriber joins": replace(
        _STAGED,
        about="an agent without the coordinator, beside a publisher; the subscriber learns the route elsewhere",
        joins=True,
        topic="b",
        script=("isolate AH0", "=move C", "=subscribe S", "=publish P0", "=rejoin AH0"),
        faults=("isolate AH0", "rejoin AH0"),
    ),
    "new connection breaks": replace(
        _ONE_MOVE,
        about="the subscriber's connection to the new broker breaks while it moves; nobody publishes",
        coarse=True,
        publishers=(),
        script=("move C", "~cut S-H1"),
        faults=("cut S-H1",),
    ),
    "leader replaced, nobody publishes": replace(
        _STAGED,
        about="a replaced leader's command arrives after the next leader's next move",
        brokers=_THREE,
        moves=(_on("H1"), _on("H2")),
        publishers=(),
        script=("move C", "~replace C", "move C"),
        faults=("replace C",),
    ),
    "leader replaced": replace(
        _STAGED,
        about="a replaced leader's command arrives during the next leader's next move",
        brokers=_THREE,
        moves=(_on("H1"), _on("H2")),
        to_the_end=False,
        script=("move C", "~replace C", "=sleep P0", "move C", "wake P0", "~publish P0"),
        faults=("replace C", "sleep P0", "wake P0"),
    ),
}

SCENARIOS: dict[str, Scenario] = {
    "one move": _ONE_MOVE,
    "one move, 2 messages": replace(_ONE_MOVE, about="one move, two messages", messages=2),
    "one move, 3 messages": replace(_ONE_MOVE, about="one move, three messages", messages=3),
    "barrier alone": replace(
        _ONE_MOVE, about="no lingering, on brokers that keep order", rules=ALL_ON.without("linger")
    ),
    "concurrent brokers": replace(_ONE_MOVE, about="brokers match first and hand on later", concurrent=True),
    "agents that lag": replace(_ONE_MOVE, about="agents hear their own broker late", beside=False),
    "lazy notice": replace(_ONE_MOVE, about="notices ride on the next publication", eager=False, messages=2),
    "three brokers": _THREE_BROKERS,
    "two publishers": replace(_ONE_MOVE, about="two publishers", publishers=(1, 2)),
    "chain": _CHAIN,
    "there and back": replace(_CHAIN, about="there and back again", brokers=_TWO, moves=(_on("H1"), _on("H0"))),
    "chain at any time": replace(_CHAIN, about="a second move at any time", one_by_one=False, walks=_WALKS),
    "chain at any time, nobody publishes": replace(
        _CHAIN, about="the same, but nobody publishes", one_by_one=False, publishers=()
    ),
    "there and back at any time": replace(
        _CHAIN,
        about="there and back, at any time",
        brokers=_TWO,
        moves=(_on("H1"), _on("H0")),
        one_by_one=False,
        walks=_WALKS,
    ),
    "there and back at any time, nobody publishes": replace(
        _CHAIN,
        about="the same, but nobody publishes",
        brokers=_TWO,
        moves=(_on("H1"), _on("H0")),
        one_by_one=False,
        publishers=(),
    ),
    "subscriber joins": _JOINS,
    "subscriber joins, 2 messages": replace(_JOINS, messages=2),
    "publisher opens": replace(_ONE_MOVE, about="the publisher opens during the move", opens=True),
    "publisher opens, directory elsewhere": replace(_THREE_BROKERS, about="the same, with a directory", opens=True),
    "to the end": replace(_LASTING, about="until the old broker is released", coarse=False),
    "ring change": Scenario(
        "the ring changes under a topic without a route",
        _TWO,
        (_on("H0"),),
        next_ring=_TWO,
        topic="b",
        joins=True,
    ),
    **_changes(),
    **_SCRIPTED,
    "broker crashes (old)": replace(_LASTING, about="the old broker", faults=("crash H0", "restart H0"), walks=_WALKS),
    "broker crashes (new)": replace(_LASTING, about="the new broker", faults=("crash H1", "restart H1"), walks=_WALKS),
    "agent crashes (old)": replace(_LASTING, about="the agent of the old broker", faults=("crash AH0", "restart AH0")),
    "agent crashes (new)": replace(
        _LASTING, about="the agent of the new broker", faults=("crash AH1", "restart AH1"), walks=_WALKS
    ),
    "publisher crashes": replace(_LASTING, about="the publisher", faults=("crash P0",)),
    "coordinator crashes": replace(_ONE_MOVE, about="the coordinator; the next leader goes on", faults=("crash C",)),
    "coordinator replaced": replace(
        _ONE_MOVE, about="the leader is replaced; its commands are still under way", faults=("replace C",)
    ),
    "subscriber cut off (old)": replace(_LASTING, about="connection to the old broker", faults=("cut S-H0",)),
    "subscriber cut off (new)": replace(_LASTING, about="connection to the new broker", faults=("cut S-H1",)),
    "subscriber away": replace(
        _LASTING, about="connection to the old broker, for as long as it likes", faults=("cut S-H0", "mend S-H0")
    ),
    "path cut": replace(_LASTING, about="an agent's path to the peer broker", faults=("cut AH0-H1",)),
    "path back cut": replace(_LASTING, about="the path back", faults=("cut AH1-H0",)),
    "agent cut from its broker": replace(_LASTING, about="an agent's own subscription", faults=("cut AH0-H0",)),
    "publisher cut off": replace(_LASTING, about="the publisher's connection", faults=("cut P0-H0",)),
    "publisher asleep": replace(_LASTING, about="beyond its lease", faults=("sleep P0", "wake P0")),
    "subscriber asleep": replace(_LASTING, about="beyond its lease", faults=("sleep S", "wake S")),
    "agent asleep": replace(_LASTING, about="beyond its lease", faults=("sleep AH0", "wake AH0"), walks=_WALKS),
    "agent isolated": replace(_LASTING, about="from the coordinator", faults=("isolate AH0", "rejoin AH0")),
}

FULL_ONLY = (
    "one move, 3 messages",
    "concurrent brokers",
    "two publishers",
    "chain",
    "there and back",
    "chain at any time",
    "chain at any time, nobody publishes",
    "there and back at any time",
    "subscriber joins, 2 messages",
    "agent restarts while the publisher lags",
    "leader replaced, nobody publishes",
    "leader replaced",
    "broker crashes (old)",
    "broker crashes (new)",
    "agent crashes (old)",
    "agent crashes (new)",
    "subscriber cut off (old)",
    "subscriber cut off (new)",
    "subscriber away",
    "path cut",
    "path back cut",
    "agent cut from its broker",
    "publisher cut off",
    "publisher asleep",
    "subscriber asleep",
    "agent asleep",
    "agent isolated",
)
"""Configurations that take more than some ten seconds."""

QUICK = tuple(name for name in SCENARIOS if name not in FULL_ONLY)
