"""Every interleaving of a small configuration, run on the protocol's own machines.

The explorer is one more shell around the machines: it carries their instructions out over FIFO channels, one per pair
of processes, and tries every order in which the heads of those channels, the workload and the faults can happen. Time
passes only when nothing is under way: timers are long against the network, which is the protocol's one timing
assumption. A fault that breaks the assumption (a process asleep) is an event of its own.

`search` visits each reachable state once. A state in which a message is lost silently, delivered twice or out of
order, goes round in circles, or in which a move never ends, is a `Violation` with the events that lead to it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from nearcast.sim.explored_world import Scenario, Violated, World


@dataclass(frozen=True, slots=True)
class Violation:
    what: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:3} {step}" for number, step in enumerate(self.trace, 1))
        return f"{self.what}\n{steps}"


@dataclass(frozen=True, slots=True)
class Exploration:
    scenario: str
    states: int
    transitions: int
    final_states: int
    seconds: float
    complete: bool
    violation: Violation | None


def search(
    scenario: Scenario,
    *,
    shortest: bool = False,
    most_states: int = 5_000_000,
    progress: Callable[[int, int], None] | None = None,
) -> Exploration:
    """Explores depth first, or breadth first for the shortest counterexample; stops at the first violation."""
    began_s = time.perf_counter()
    first = World.start(scenario)
    first_key = first.key()
    parents: dict[int, tuple[int, str]] = {first_key: (first_key, "")}
    work: deque[tuple[int, World]] = deque([(first_key, first)])
    transitions = finals = 0
    violation: Violation | None = None
    while work and violation is None and len(parents) <= most_states:
        key, world = work.popleft() if shortest else work.pop()
        events = world.events()
        if not events:
            finals += 1
            if (what := world.verdict()) is not None:
                violation = Violation(what, _trace(parents, key))
            continue
        for event in events:
            transitions += 1
            after = world.fork()
            try:
                label = after.do(event)
            except Violated as found:
                violation = Violation(str(found), (*_trace(parents, key), after.label))
                break
            after_key = after.key()
            if after_key not in parents:
                parents[after_key] = (key, label)
                work.append((after_key, after))
                if progress is not None and len(parents) % 10_000 == 0:
                    progress(len(parents), transitions)
    seconds = time.perf_counter() - began_s
    complete = violation is None and not work
    return Exploration(scenario.name, len(parents), transitions, finals, seconds, complete, violation)


def _trace(parents: dict[int, tuple[int, str]], key: int) -> tuple[str, ...]:
    steps: list[str] = []
    while (parent := parents[key])[0] != key:
        steps.append(parent[1])
        key = parent[0]
    return tuple(reversed(steps))
