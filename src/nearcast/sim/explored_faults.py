"""Faults of the explored world: processes that crash, sleep or are cut off, and connections that break."""

from __future__ import annotations

import math

from nearcast.sim.explored_broker import Broker
from nearcast.sim.explored_draft import Draft, Layout
from nearcast.sim.explored_outbox import COORDINATOR, agent_of
from nearcast.sim.explored_processes import Agent, Coordinator, Process, Publishing
from nearcast.sim.explored_scenario import Scenario
from nearcast.sim.explored_state import AWAY, FAULTS, NOW, State

FORMER = f"{COORDINATOR}'"
"""A leader that has been replaced: only what it said before is left of it."""

_FIRST = {"restart": "crash", "rejoin": "isolate", "wake": "sleep", "mend": "cut"}
"""What must have happened before."""


def victims(scenario: Scenario, faults_left: int) -> frozenset[str]:
    """The processes that the faults still to come may befall."""
    return frozenset(
        name
        for number, fault in enumerate(scenario.faults)
        if faults_left >> number & 1
        for name in fault.partition(" ")[2].split("-")
    )


def lasts(scenario: Scenario, faults_left: int) -> bool:
    """Whether a fault has happened whose end is still to come."""
    left = [fault for number, fault in enumerate(scenario.faults) if faults_left >> number & 1]
    kinds = [fault.partition(" ") for fault in left]
    return any(kind in _FIRST and f"{_FIRST[kind]} {name}" not in left for kind, _, name in kinds)


def ends(event: tuple[str, str, str]) -> bool:
    """Whether this ends a fault: without a script that happens soon, or when all timers have run out."""
    return event[0] == "fault" and event[2] in _FIRST


def possible(scenario: Scenario, state: State) -> list[tuple[str, str, str]]:
    """The faults that may happen now, at any time."""
    left = [fault for number, fault in enumerate(scenario.faults) if state[FAULTS] >> number & 1]
    out: list[tuple[str, str, str]] = []
    for fault in left:
        kind, _, name = fault.partition(" ")
        first = f"{_FIRST[kind]} {name}" if kind in _FIRST else None
        if first is None or first not in left:
            out.append(("fault", name, kind))
    return out


def prompt(scenario: Scenario, layout: Layout, state: State) -> list[tuple[str, str, str]]:
    """What follows from faults by itself, soon: connections come back, agents renew, the coordinator notices."""
    away = layout.away.values[state[AWAY]]
    now = layout.times.values[state[NOW]]
    left = [fault for number, fault in enumerate(scenario.faults) if state[FAULTS] >> number & 1]
    out: list[tuple[str, str, str]] = []
    for name, other in sorted(away):
        if other in scenario.brokers and f"mend {name}-{other}" not in left and (name, name) not in away:
            broker = layout.process(state, other)
            if isinstance(broker, Broker) and broker.up and not _dead(layout.process(state, name)):
                out.append(("reconnect", name, other))
    for name in (agent_of(broker) for broker in scenario.brokers):
        agent = layout.process(state, name)
        assert isinstance(agent, Agent)
        lease_s = agent.machine.lease_until_s
        if lease_s == math.inf:
            continue
        if not _unheard(agent, name, away):
            if agent.noticed or agent.restarted:
                out.append(("report", name, ""))
            elif _caught_up(layout, state, name):
                out.append(("renew", name, ""))
        elif lease_s <= now and not agent.noticed:
            out.append(("notice", name, ""))
    return out


def next_s(layout: Layout, draft: Draft) -> float:
    """When the coordinator will notice that an agent does not renew its lease."""
    out = math.inf
    for name in (agent_of(broker) for broker in layout.brokers):
        agent = draft.process(name)
        if isinstance(agent, Agent) and not agent.noticed and _unheard(agent, name, draft.away):
            out = min(out, agent.machine.lease_until_s)
    return out


def happen(scenario: Scenario, draft: Draft, event: tuple[str, str, str]) -> None:
    kind, name, what = event
    match kind:
        case "reconnect":
            draft.notes.append(f"the connection of {name} to {what} is back")
            draft.reconnect(name, what)
        case "report":
            draft.notes.append(f"{name} reports to C again")
            draft.take(name, "", "report")
        case "renew":
            draft.notes.append(f"{name} has a lease again")
            draft.take(name, "", "renew")
        case "notice":
            draft.notes.append(f"C sees that the lease of {name} is out")
            draft.take(name, "", "noticed")
            draft.take(COORDINATOR, "", ("lost", name[1:]))
        case "fault":
            draft.notes.append(f"fault: {what} {name}")
            draft.faults &= ~(1 << scenario.faults.index(f"{what} {name}"))
            _fail(draft, what, name)


def _fail(draft: Draft, kind: str, name: str) -> None:
    if kind in ("cut", "mend"):
        process, _, broker = name.partition("-")
        if kind == "cut":
            draft.cut(process, broker)
        return
    match kind, draft.process(name):
        case "crash", Broker():
            for other in draft.layout.names:
                if other != COORDINATOR and other not in draft.layout.brokers:
                    draft.cut(other, name)
            draft.take(name, "", "crash")
        case "crash", Agent():
            draft.disconnect(name)
            draft.block((COORDINATOR, name))
            draft.take(name, "", "crash")
        case "crash", Publishing():
            draft.disconnect(name)
            draft.take(name, "", "crash")
        case "crash", _:  # the coordinator: the next leader goes on at once
            _drop_words_of(draft, name)
            draft.take(name, "", "crash")
        case "replace", _:
            _outlive(draft, name)
            draft.take(name, "", "crash")
        case "restart", Agent():
            draft.unblock((COORDINATOR, name))
            draft.connect_afresh(name)
            draft.take(name, "", "restart")
        case "restart", _:
            draft.take(name, "", "restart")
        case "isolate", _:
            draft.block((COORDINATOR, name))
            draft.take(name, "", "cut off")
        case "rejoin", _:
            draft.unblock((COORDINATOR, name))
        case "sleep", befallen:
            draft.away = draft.away | {(name, name)}
            if isinstance(befallen, Agent):
                draft.take(name, "", "cut off")
        case "wake", _:
            draft.unblock((name, name))


def _drop_words_of(draft: Draft, name: str) -> None:
    for pair in list(draft.channels):
        if name in draft.layout.pairs.values[pair]:
            del draft.channels[pair]


def _outlive(draft: Draft, name: str) -> None:
    """A leader that was replaced and does not know it yet: what it said is still under way."""
    for pair, queue in list(draft.channels.items()):
        source, target = draft.layout.pairs.values[pair]
        if source == name:
            del draft.channels[pair]
            draft.channels[draft.layout.pairs((FORMER, target))] = queue


def _caught_up(layout: Layout, state: State, name: str) -> bool:
    """The coordinator renews an agent's lease once the agent knows what it missed."""
    coordinator = layout.process(state, COORDINATOR)
    assert isinstance(coordinator, Coordinator)
    reporting = layout.pairs((name, COORDINATOR)) in dict(layout.channels(state))
    return not reporting and not coordinator.machine.catching_up(name[1:])


def _unheard(agent: Agent, name: str, away: frozenset[tuple[str, str]]) -> bool:
    return agent.dead or (COORDINATOR, name) in away or (name, name) in away


def _dead(process: Process) -> bool:
    return isinstance(process, Agent | Publishing) and process.dead
