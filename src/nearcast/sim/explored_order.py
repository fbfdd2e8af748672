"""Which orders of events make no difference, so that one of them is enough.

Two kinds. A delivery **at once** is explored as the only event of its state, because whatever else could happen first
leads to the same states when it happens after; `Order.at_once` gives the reason for each. And two events of different
processes are **independent**: each leaves the other possible and unchanged, so of the two orders only one is tried
(sleep sets: no state is left out, only ways to reach it).

A fault is independent of nothing, and nothing that it may befall is delivered at once while it is still to come.
"""

from __future__ import annotations

import itertools

from nearcast.control.subscriber import Subscriber
from nearcast.sim import explored_faults as faults
from nearcast.sim.explored_broker import Broker
from nearcast.sim.explored_draft import Layout
from nearcast.sim.explored_outbox import COORDINATOR, agent_of
from nearcast.sim.explored_processes import Agent, Coordinator, Publishing, Subscribing
from nearcast.sim.explored_scenario import Scenario
from nearcast.sim.explored_state import FAULTS, PROCESSES, SCRIPT, State
from nearcast.wire.control import (
    Ack,
    Ask,
    Bye,
    Generation,
    Hello,
    Launch,
    Marker,
    Prepare,
    Quiet,
    Switch,
    Tell,
    Welcome,
)
from nearcast.wire.envelope import Envelope, Trail

NEVER = -1
EVERYTHING = -1
"""As a footprint: a set of bits with all of them."""


class Order:
    __slots__ = (
        "_at_once",
        "_by",
        "_earlier",
        "_footprints",
        "_layout",
        "_loom",
        "_one_by_one",
        "_scenario",
        "_unsafe",
        "last_epoch",
    )

    def __init__(self, scenario: Scenario, layout: Layout) -> None:
        self._scenario = scenario
        self._layout = layout
        doubtful = scenario.brokers if not scenario.coarse else [b for _, brokers in scenario.moves for b in brokers]
        agents_fail = any(agent_of(broker) in fault for fault in scenario.faults for broker in doubtful)
        # With an agent lost what agents answer changes within an epoch, and a move may be cancelled, which takes an
        # epoch of its own: then no epoch is surely the last.
        self.last_epoch = NEVER if agents_fail or scenario.next_ring else 1 + len(scenario.moves)
        scripted = [step for step in scenario.script if step.endswith("move C")]
        self._one_by_one = scenario.one_by_one or (bool(scripted) and not any(s.startswith("~") for s in scripted))
        self._at_once: dict[tuple[int, int, int, int, float], bool] = {}
        self._by: dict[tuple[int, int, int, int, int], bool] = {}
        places = (scenario.first, *scenario.moves)
        self._earlier = {broker for _, brokers in places[:-1] for broker in brokers}
        self._loom: dict[int, int] = {}
        self._unsafe: dict[tuple[int, int], bool] = {}
        self._footprints: dict[tuple[str, str, str], int] = {}

    def at_once(self, state: State, pair: int, at: int, message: int, now: float) -> bool:
        """Whether the head of this channel, for a process in state `at`, may as well arrive now, and only now."""
        if not self._scenario.reduced:
            return False
        faults_left = self._looming(state)
        if faults_left and self._may_be_hit(faults_left, pair):
            return False
        last = self._last_epoch_for_now(state)
        key = (at, message, pair, last, now)
        known = self._at_once.get(key)
        if known is None:
            via = self._layout.pairs.values[pair][0]
            known = self._at_once[key] = self._makes_no_difference(at, message, via, last, now)
        return known or self._passes_by(state, at, message, last, faults_left)

    def _passes_by(self, state: State, at: int, message: int, last: int, faults_left: int) -> bool:
        """Whether the broker may as well hand this on now, for what the subscriber, as it is, will ever make of it."""
        listener = state[PROCESSES + self._layout.index["S"]]
        key = (at, listener, message, last, faults_left)
        known = self._by.get(key)
        if known is None:
            known = self._by[key] = self._is_no_news(at, listener, message, last, faults_left)
        return known

    def _is_no_news(self, at: int, listener: int, message: int, last: int, faults_left: int) -> bool:
        """The reasons.

        A notice of a route that the subscriber knows, and what it has delivered already, change nothing wherever they
        stand in the queue to it; the agent beside the broker has no use for them either. A marker counts for a barrier
        that stays until it is complete, and then the subscriber lingers, and so waits for all that is under way.
        """
        processes, rules = self._layout.steps.processes, self._scenario.rules
        broker, envelope = processes[at], self._layout.steps.messages.values[message]
        if not isinstance(broker, Broker) or not isinstance(envelope, Envelope) or not rules.visited:
            return False
        if faults_left and "S" in faults.victims(self._scenario, faults_left):
            return False
        subscribing = processes[listener]
        assert isinstance(subscribing, Subscribing)
        subscriber, trail = subscribing.machine, envelope.trail
        epoch, known = subscriber.lease.epoch, subscriber.streams.known
        match envelope.notice:
            case Switch(route=route):
                return route.epoch < epoch or route.epoch == epoch == last
            case Marker(ended=ended):
                waits = subscriber.barrier is not None and epoch == last and rules.linger
                return waits and all(publisher in known for publisher, *_ in ended)
            case None:
                stream = known.get(envelope.publisher)
                useless = trail is not None and self.last_epoch != NEVER and trail.known_epoch >= self.last_epoch
                return useless and stream is not None and envelope.seq < stream.next
            case _:
                return False

    def _last_epoch_for_now(self, state: State) -> int:
        """The last epoch that anything under way can be about; a move that begins only when nothing is comes later."""
        if not self._one_by_one or self.last_epoch == NEVER:
            return self.last_epoch
        coordinator = self._layout.process(state, COORDINATOR)
        assert isinstance(coordinator, Coordinator)
        return 1 + coordinator.begun

    def _makes_no_difference(self, at: int, message: int, via: str, last: int, now: float) -> bool:
        """The reasons.

        What agents tell the coordinator is counted, not ordered. An agent's confirmed subscription lets out what
        waited for it, and nothing else looks at it. An agent that knows the last epoch answers a question the same at
        any time, and a goodbye concerns it no more; a marker that it launches is then under way for as long as it
        likes. A preparation is eager where the agent hears nothing of the topic: what it starts, a subscription, is
        still under way for as long as it likes. A subscriber that is granted a generation, or hears of its route
        again, leaves a broker only after lingering, and so after all that is under way.
        """
        process = self._layout.steps.processes[at]
        match process, self._layout.steps.messages.values[message]:
            case Coordinator(), Ack() | Quiet() | ("back", _):
                return True
            case Agent(), "subscribed" | Launch():
                return True
            case Agent(), Hello() | Ask() | Bye():
                forwarder = process.forwarder()
                return forwarder is not None and forwarder.told == last
            case Agent(), Tell():
                return self._scenario.coarse
            case Agent(), Prepare():
                forwarder = process.forwarder()
                return forwarder is None or forwarder.attached is False
            case Subscribing(), Generation():
                return self._scenario.rules.linger
            case Subscribing(), Welcome(route=route) | Envelope(notice=Switch(route=route)):
                known = process.machine.lease.epoch
                return route.epoch < known or route.epoch == known == last
            case Subscribing(), Envelope() as envelope:
                return self._adds_nothing(process.machine, envelope, via, last)
            case Publishing(), Welcome(route=route):
                lease = process.machine.lease
                return route.epoch < lease.epoch or (route.epoch == lease.epoch == last and lease.usable(now))
            case Broker(), Envelope(notice=Switch(route=route)):
                return route.epoch == last and process.name not in self._earlier
            case _:
                return False

    def _adds_nothing(self, subscriber: Subscriber, envelope: Envelope, via: str, last: int) -> bool:
        """A repeat of what was delivered, or a marker in its turn while the subscriber will linger anyway."""
        trail = envelope.trail
        if trail is not None and not _in_turn(subscriber, trail, via):
            return False
        known = subscriber.streams.known
        if envelope.notice is None:
            stream = known.get(envelope.publisher)
            return stream is not None and envelope.seq < stream.next
        if not isinstance(envelope.notice, Marker) or subscriber.barrier is None or not self._scenario.rules.linger:
            return False
        settled = subscriber.lease.epoch == last
        return settled and all(publisher in known for publisher, *_ in envelope.notice.ended)

    def _looming(self, state: State) -> int:
        """The faults that may happen while something is under way: all, or those that a script lets happen so."""
        script, place = self._scenario.script, state[SCRIPT]
        if not script:
            return state[FAULTS]
        known = self._loom.get(place)
        if known is None:
            soon = itertools.takewhile(lambda step: step.startswith("~"), script[place:])
            numbers = [self._scenario.faults.index(step[1:]) for step in soon if step[1:] in self._scenario.faults]
            known = self._loom[place] = sum(1 << number for number in numbers)
        return known

    def ticks_at_once(self, state: State, name: str) -> bool:
        """An agent's timers send markers and beats, which are then under way for as long as they like."""
        if not self._scenario.reduced or not name.startswith("A"):
            return False
        return name not in faults.victims(self._scenario, self._looming(state))

    def writes_at_once(self, state: State) -> bool:
        """What a write lets out, commands, is under way for as long as it likes."""
        return self._scenario.reduced and COORDINATOR not in faults.victims(self._scenario, self._looming(state))

    def _may_be_hit(self, faults_left: int, pair: int) -> bool:
        key = (faults_left, pair)
        known = self._unsafe.get(key)
        if known is None:
            source, target = self._layout.pairs.values[pair]
            hit = faults.victims(self._scenario, faults_left)
            touched = {source, target, *(name for link in self._layout.links_of(source, target) for name in link)}
            known = self._unsafe[key] = not hit.isdisjoint(touched)
        return known

    def footprint(self, event: tuple[str, str, str]) -> int:
        """The processes that an event reads or changes, as bits; events whose footprints are apart are independent."""
        known = self._footprints.get(event)
        if known is None:
            known = self._footprints[event] = self._footprint(event)
        return known

    def _footprint(self, event: tuple[str, str, str]) -> int:
        kind, name, _ = event
        scenario, index = self._scenario, self._layout.index
        if not scenario.reduced or kind not in ("deliver", "hand on", "write", "tick", "publish", "subscribe", "move"):
            return EVERYTHING
        bits = 1 << index[name]
        if name in scenario.brokers and scenario.beside:
            bits |= 1 << index[agent_of(name)]
        if kind == "publish" and (scenario.joins or scenario.faults):
            bits |= 1 << index["S"]  # whether a message is under the promise, and which reports came before it
        if kind == "move" and scenario.one_by_one:
            return EVERYTHING
        return bits


def _in_turn(subscriber: Subscriber, trail: Trail, via: str) -> bool:
    """Whether a forwarded frame follows the one before it on its path, so that it tells nothing about the path."""
    path = subscriber._paths.get((trail.source, via))  # noqa: SLF001 the explorer looks into the machines by design
    dark = subscriber._dark  # noqa: SLF001 as above
    return not dark and (path is None or (trail.session == path.session and trail.count <= path.count + 1))
