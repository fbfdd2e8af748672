"""Every interleaving of a small configuration, run on the protocol's own machines.

The explorer is one more shell around the machines: it carries their instructions out over FIFO channels, one per pair
of processes, and tries every order in which the heads of those channels, the workload and the faults can happen. Time
passes only when nothing is under way: timers are long against the network, which is the protocol's one timing
assumption. A fault that breaks the assumption (a process asleep) is an event of its own.

`search` visits each reachable state once; `wander` runs from the start to the end many times, at random, where there
are too many states to visit. A state in which a message is lost silently, delivered twice or out of order, goes round
in circles, or in which a move never ends, is a `Violation` with the events that lead to it.
"""

from __future__ import annotations

import random
import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nearcast.sim.explored_judge import outcome, verdict
from nearcast.sim.explored_outbox import Violated
from nearcast.sim.explored_scenario import Scenario
from nearcast.sim.explored_state import Numbers, State
from nearcast.sim.explored_telling import condensed
from nearcast.sim.explored_world import Event, World


@dataclass(frozen=True, slots=True)
class Violation:
    what: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:3} {step}" for number, step in enumerate(condensed(self.trace), 1))
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
    outcomes: frozenset[object] = field(default=frozenset(), repr=False)
    walks: int = 0  # random runs, where there were any

    @property
    def fine(self) -> bool:
        """Nothing was found, and all was looked at that was to be."""
        return self.violation is None and (self.complete or self.walks > 0)


class _Visited:
    """Every state seen, how it was first reached, and which events need not be tried from it (its sleep set)."""

    __slots__ = ("_numbers", "events", "parents", "sleeping")

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self.parents = array("q")
        self.events = array("q")
        self.sleeping: list[int] = []

    def __len__(self) -> int:
        return len(self.parents)

    def number(self, state: State) -> tuple[int, bool]:
        key = array("I", state).tobytes()
        number = self._numbers.setdefault(key, len(self.parents))
        return number, number == len(self.parents)

    def add(self, parent: int, event: int, sleeping: int) -> None:
        self.parents.append(parent)
        self.events.append(event)
        self.sleeping.append(sleeping)

    def way_to(self, number: int) -> list[int]:
        events: list[int] = []
        while number:
            events.append(self.events[number])
            number = self.parents[number]
        return events[::-1]


class _Search:
    __slots__ = ("apart", "bits", "finals", "outcomes", "transitions", "visited", "work", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self.visited = _Visited()
        self.bits: Numbers[Event] = Numbers()
        self.apart: dict[int, tuple[int, int]] = {}  # event -> how many it was compared with, those independent of it
        self.work: deque[tuple[int, State, int, int]] = deque()
        self.transitions = 0
        self.finals = 0
        self.outcomes: set[object] = set()
        first = world.first()
        self.visited.number(first)
        self.visited.add(0, 0, 0)
        self.work.append((0, first, 0, 0))

    def expand(self, number: int, state: State, sleeping: int, only: int) -> Violation | None:
        """Tries the events of a state: all that do not sleep, or those of `only` that slept before."""
        events = self.world.events(state)
        if not events:
            if only:
                return None
            self.finals += 1
            what = verdict(self.world.scenario, self.world.layout, state)
            self.outcomes.add((what, outcome(self.world.layout, state)))
            return Violation(what, self.trace(number, None)) if what is not None else None
        done = sleeping
        violation: Violation | None = None
        for event in events:
            bit = self.bits(event)
            if sleeping >> bit & 1:
                continue
            if only and not only >> bit & 1:
                continue
            self.transitions += 1
            try:
                after = self.world.after(state, event)
            except Violated as found:
                self.outcomes.add(str(found))
                violation = violation or Violation(str(found), self.trace(number, event))
                continue
            self._reach(after, number, bit, done & self._independent_of(bit))
            done |= 1 << bit
        return violation

    def _reach(self, state: State, parent: int, bit: int, sleeping: int) -> None:
        number, new = self.visited.number(state)
        if new:
            self.visited.add(parent, bit, sleeping)
            self.work.append((number, state, sleeping, 0))
            return
        before = self.visited.sleeping[number]
        woken = before & ~sleeping
        if woken:
            self.visited.sleeping[number] = before & sleeping
            self.work.append((number, state, before & sleeping, woken))

    def _independent_of(self, bit: int) -> int:
        """The events, of those met so far, that are independent of this one."""
        known, mask = self.apart.get(bit, (0, 0))
        if known < len(self.bits.values):
            order = self.world.order
            mine = order.footprint(self.bits.values[bit])
            for other in range(known, len(self.bits.values)):
                if not order.footprint(self.bits.values[other]) & mine:
                    mask |= 1 << other
            self.apart[bit] = (len(self.bits.values), mask)
        return mask

    def trace(self, number: int, last: Event | None) -> tuple[str, ...]:
        events = [self.bits.values[bit] for bit in self.visited.way_to(number)]
        return self.world.tell([*events, last] if last else events)


def explore(scenario: Scenario, *, name: str = "") -> Exploration:
    """Every interleaving, or as many random ones as the scenario asks for."""
    return wander(scenario, name=name) if scenario.walks else search(scenario, name=name)


def wander(scenario: Scenario, *, name: str = "", seed: int = 1) -> Exploration:
    """Random runs; what can happen next is equally likely. No order is left out. Stops at the first violation.

    `states` counts those at which a run stood, again and again where runs met.
    """
    began_s = time.perf_counter()
    world = World(replace(scenario, reduced=False))
    rng = random.Random(seed)
    transitions = walks = 0
    violation: Violation | None = None
    while walks < scenario.walks and violation is None:
        walks += 1
        state, way = world.first(), list[Event]()
        try:
            while events := world.events(state):
                way.append(rng.choice(events))
                state = world.after(state, way[-1])
            what = verdict(scenario, world.layout, state)
        except Violated as found:
            what = str(found)
        transitions += len(way)
        violation = Violation(what, world.tell(way)) if what is not None else None
    seconds = time.perf_counter() - began_s
    return Exploration(name, transitions + walks, transitions, walks, seconds, False, violation, walks=walks)


def search(
    scenario: Scenario,
    *,
    name: str = "",
    shortest: bool = False,
    most_states: int = 10_000_000,
    on_and_on: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Exploration:
    """Explores depth first, or breadth first for the shortest counterexample; stops at the first violation.

    With `on_and_on` it does not stop: `outcomes` then has every way in which it can end, good and bad.
    """
    began_s = time.perf_counter()
    run = _Search(World(scenario))
    violation: Violation | None = None
    while run.work and (violation is None or on_and_on) and len(run.visited) <= most_states:
        violation = run.expand(*(run.work.popleft() if shortest else run.work.pop())) or violation
        if progress is not None and run.transitions % 10_000 == 0:
            progress(len(run.visited), run.transitions)
    seconds = time.perf_counter() - began_s
    complete = violation is None and not run.work
    outcomes = frozenset(run.outcomes)
    return Exploration(name, len(run.visited), run.transitions, run.finals, seconds, complete, violation, outcomes)
