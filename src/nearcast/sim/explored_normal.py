"""One form for states of a process that cannot be told apart by anything still to come.

Two histories often leave a process in states that differ only in what it will never look at again: the order in which
markers came in, frames kept for a connection that does not break here, how many were forwarded. Each has its reason
below; what is put into its normal form is put so after every step, so a state is what it is, and equal means equal.
"""

from __future__ import annotations

import math
from typing import TypeVar

from nearcast.control.barrier import Barrier
from nearcast.control.dispatcher import Dispatcher
from nearcast.control.forwarder import Forwarder
from nearcast.control.handover import Counted, Handovers
from nearcast.control.move import Move
from nearcast.control.publisher import Publisher
from nearcast.control.subscriber import Subscriber
from nearcast.sim.explored_broker import Broker
from nearcast.sim.explored_outbox import agent_of
from nearcast.sim.explored_processes import Agent, Coordinator, Process, Publishing, Subscribing
from nearcast.sim.explored_scenario import Scenario

_V = TypeVar("_V")
_K = TypeVar("_K", str, tuple[str, str], tuple[str, str, str], tuple[str, int])

# ruff: noqa: SLF001 the explorer looks into the machines by design


class Normal:
    """The normal form of each process's states in one scenario."""

    __slots__ = ("_scenario",)

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def __call__(self, process: Process) -> None:
        """Changes nothing that the process can still be seen to do."""
        match process:
            case Broker():
                _broker(process)
            case Coordinator():
                self._move(process.machine)
            case Agent():
                self._dispatcher(process.machine)
            case Publishing():
                self._publisher(process.machine)
            case Subscribing():
                self._subscriber(process.machine)

    def _breaks(self, process: str, broker: str) -> bool:
        """Whether this connection may break."""
        return f"cut {process}-{broker}" in self._scenario.faults or f"crash {broker}" in self._scenario.faults

    def _move(self, move: Move) -> None:
        move._quiet = _sorted(move._quiet)
        if not self._scenario.faults and not move._waiting and not move._catching_up:
            move._sent_s = -math.inf  # set anew with the next command

    def _dispatcher(self, dispatcher: Dispatcher) -> None:
        dispatcher._handovers = Handovers()
        agenda = dispatcher._agenda
        agenda._at_s = {key: at_s for key, at_s in agenda._at_s.items() if at_s < math.inf}
        agenda._heap = sorted((at_s, key) for key, at_s in agenda._at_s.items())
        for forwarder in dispatcher.forwarders.values():
            self._forwarder(forwarder)
        if dispatcher.forwarders and all(forwarder.newest for forwarder in dispatcher.forwarders.values()):
            dispatcher._asked_s = -math.inf  # it would time the end of topics without a route, and there are none

    def _forwarder(self, forwarder: Forwarder) -> None:
        forwarder.counted = Counted()
        if forwarder.newest:
            forwarder.used_s = -math.inf  # as above
        if len(self._scenario.publishers) < 2:
            entries = forwarder.clients.entries
            forwarder.clients.entries = _sorted(entries)  # only publishers are written to
        for target, path in forwarder.paths.items():
            if not self._breaks(agent_of(forwarder.broker), target):
                path.unconfirmed.clear()

    def _publisher(self, publisher: Publisher) -> None:
        if not any(self._breaks(publisher.client, broker) for broker in self._scenario.brokers):
            publisher.unconfirmed.clear()
            publisher._confirmed.clear()

    def _subscriber(self, subscriber: Subscriber) -> None:
        subscriber._paths = _sorted(subscriber._paths)
        if subscriber.barrier is not None:
            _barrier(subscriber.barrier, subscriber)
        for broker, attachment in subscriber.attachments.items():
            if not self._breaks(subscriber.client, broker):
                attachment.heard_s = 0.0
        if not self._scenario.faults and subscriber.timing.beat_s == math.inf:
            for path in subscriber._paths.values():
                path.heard_s = 0.0


def _barrier(barrier: Barrier, subscriber: Subscriber) -> None:
    """It looks at markers of what it was granted, by number, through brokers in use, and until it is complete."""
    if barrier.linger_until_s is not None:
        barrier.seen, barrier.granted = {}, {}
        barrier.asks, barrier.asked_s = 0, 0.0
        return
    barrier.granted = _sorted(barrier.granted)
    seen: dict[tuple[str, str, str], tuple[int, int]] = {}
    for key, marked in sorted(barrier.seen.items()):
        source, via, origin = key
        if via not in subscriber.attachments:
            continue
        granted = barrier.granted.get(origin)
        if granted is None or granted.incarnation != marked[0]:
            seen[key] = marked
        elif source in granted.sources and granted.generation <= marked[1]:
            seen[key] = (granted.incarnation, granted.generation)
    barrier.seen = seen


def _broker(broker: Broker) -> None:
    """Those it hands on to are on channels of their own."""
    broker.subscribed = _sorted(broker.subscribed)
    broker.wants = _sorted(broker.wants)
    broker.busy = _sorted(broker.busy)
    for handing in broker.busy.values():
        handing.waiting.sort()


def _sorted(values: dict[_K, _V]) -> dict[_K, _V]:
    return dict(sorted(values.items(), key=lambda item: item[0]))
