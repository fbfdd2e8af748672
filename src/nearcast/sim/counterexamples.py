"""For each rule, a configuration in which its absence shows, and what the explorer finds there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nearcast.control.rules import NAMES, NUMBER
from nearcast.domain.errors import ConfigError
from nearcast.sim.explore import Exploration, search
from nearcast.sim.explored_telling import condensed
from nearcast.sim.scenarios import SCENARIOS


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Where to look. `shortest`: the whole breadth of it is small enough to find the shortest one."""

    scenario: str
    why: str
    shortest: bool = True


COUNTEREXAMPLES: dict[str, Counterexample] = {
    "prepare_first": Counterexample(
        "one move", "Clients are told before every agent listens: what is published at the old broker is not forwarded."
    ),
    "confirm": Counterexample(
        "one move", "A subscription is counted before the broker has it: what is matched in between is missed."
    ),
    "barrier": Counterexample(
        "one move", "The subscriber leaves the old broker while a message is on its way to it or through it."
    ),
    "linger": Counterexample(
        "concurrent brokers",
        "A broker hands on to one connection after the other: the marker overtakes a message matched before it.",
        shortest=False,
    ),
    "sessions": Counterexample(
        "agent restarts while the publisher lags",
        "An agent restarts before anybody misses it: what its broker got meanwhile is not forwarded, nor reported.",
        shortest=False,
    ),
    "visited": Counterexample("one move", "Two agents forward the same message to each other for ever."),
    "legs": Counterexample(
        "one move, 2 messages", "The second message, on the new leg, arrives before the first, on the old one."
    ),
    "leases": Counterexample(
        "publisher asleep and unknown",
        "A publisher wakes after its broker was released and uses the route it knows: nobody listens there.",
    ),
    "hello_again": Counterexample(
        "new connection breaks",
        "After a break in the middle of its move the subscriber waits, between two brokers, for its next renewal. "
        "Nothing is lost: routes are leases, and whoever missed a move asks within a third of one. The rule buys time.",
    ),
    "agent_leases": Counterexample(
        "agent isolated, subscriber joins",
        "An agent that the coordinator has given up goes on confirming a route that is over.",
    ),
    "terms": Counterexample(
        "leader replaced, nobody publishes",
        "A command of a replaced leader takes an agent back to routes that are over; it is then never released.",
        shortest=False,
    ),
    "pin_ring": Counterexample(
        "ring change", "The next ring's owner starts the topic anew, while its publishers are still at the last one's."
    ),
}

_MOST_STATES = 400_000


def find(rule: str) -> Exploration:
    """What the explorer finds without this rule."""
    if rule not in COUNTEREXAMPLES:
        raise ConfigError(f"{rule!r} is not a rule; the rules are {', '.join(NAMES)}")
    where = COUNTEREXAMPLES[rule]
    scenario = SCENARIOS[where.scenario]
    without = replace(scenario, rules=scenario.rules.without(rule))
    return search(without, name=where.scenario, shortest=where.shortest, most_states=_MOST_STATES)


def page(found: dict[str, Exploration]) -> str:
    """The findings as a page of documentation."""
    rows = [f"| {NUMBER[rule]} | [`{rule}`](#{rule}) | {run.scenario} | {_what(run)} |" for rule, run in found.items()]
    parts = [_HEAD, *rows, ""]
    for rule, run in found.items():
        parts += ["", f"## {rule}", "", f"Rule {NUMBER[rule]}. {COUNTEREXAMPLES[rule].why}", ""]
        parts += [f"Configuration: {run.scenario} ({SCENARIOS[run.scenario].about}). Found: {_what(run)}.", ""]
        if run.violation is not None:
            steps = condensed(run.violation.trace)
            parts += ["```text", *(f"{number:3} {step}" for number, step in enumerate(steps, 1)), "```"]
    return "\n".join(parts) + "\n"


def _what(run: Exploration) -> str:
    return run.violation.what if run.violation is not None else "nothing"


_HEAD = """# What each rule is for

Every rule of a move has a switch in `nearcast.control.rules`. With one off, the explorer finds what goes wrong: this
page is written by `nearcast lab explore --counterexamples docs/counterexamples.md`. P0 is a publisher, S the
subscriber, H0 to H2 are brokers, AH0 to AH2 the agents beside them, C the coordinator (C' one that was replaced). `1:2`
is the second message of publisher 1. Questions, acknowledgements and what their receiver already knew are left out.

| rule | switch | configuration | found |
|---|---|---|---|"""
