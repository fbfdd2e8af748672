"""A state of the explored world while one event changes it: channels, connections, and the steps of its processes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from nearcast.sim.explored_broker import Broker
from nearcast.sim.explored_normal import Normal
from nearcast.sim.explored_outbox import COORDINATOR, Violated, agent_of
from nearcast.sim.explored_processes import Process
from nearcast.sim.explored_scenario import Scenario
from nearcast.sim.explored_state import AWAY, DISTURBED, FAULTS, NOW, PROCESSES, SCRIPT, Numbers, State, Steps
from nearcast.wire.envelope import Envelope

Link = tuple[str, str]
"""(process, broker): a connection. (C, agent): the way over the control bus. (process, itself): awake."""

_LONGEST_QUEUE = 60


class Layout:
    """What all states of one exploration have in common."""

    __slots__ = ("away", "beside", "brokers", "index", "links", "names", "pairs", "queues", "steps", "times")

    def __init__(self, names: tuple[str, ...], scenario: Scenario) -> None:
        self.names = names
        self.brokers = scenario.brokers
        self.beside = scenario.beside
        self.index = {name: index for index, name in enumerate(names)}
        self.steps = Steps(Normal(scenario) if scenario.reduced else None)
        self.pairs: Numbers[tuple[str, str]] = Numbers()
        self.queues: Numbers[tuple[int, ...]] = Numbers()
        self.times: Numbers[float] = Numbers()
        self.away: Numbers[frozenset[Link]] = Numbers()
        self.links: dict[tuple[str, str], tuple[Link, ...]] = {}

    def links_of(self, source: str, target: str) -> tuple[Link, ...]:
        """The connections that a message from one to the other goes over."""
        links = self.links.get((source, target))
        if links is None:
            links = self.links[source, target] = self._links_of(source, target)
        return links

    def _links_of(self, source: str, target: str) -> tuple[Link, ...]:
        if target in self.brokers:
            return ((source, target),)
        if source in self.brokers:
            return ((target, source),)
        if COORDINATOR in (source[0], target):
            return ((COORDINATOR, source if target == COORDINATOR else target),)
        agents = [agent_of(broker) for broker in self.brokers]
        broker = (target if target in agents else source)[1:]
        return tuple(dict.fromkeys(((source, broker), (target, broker))))

    def process(self, state: State, name: str) -> Process:
        return self.steps.processes[state[PROCESSES + self.index[name]]]

    def channels(self, state: State) -> Iterable[tuple[int, int]]:
        first = PROCESSES + len(self.names)
        return zip(state[first::2], state[first + 1 :: 2], strict=True)


class Draft:
    __slots__ = ("away", "channels", "disturbed_s", "faults", "layout", "notes", "now", "numbers", "script")

    def __init__(self, layout: Layout, state: State) -> None:
        self.layout = layout
        self.now = layout.times.values[state[NOW]]
        self.disturbed_s = layout.times.values[state[DISTURBED]]
        self.faults = state[FAULTS]
        self.script = state[SCRIPT]
        self.away = layout.away.values[state[AWAY]]
        self.numbers = list(state[PROCESSES : PROCESSES + len(layout.names)])
        self.channels = dict(layout.channels(state))
        self.notes: list[str] = []

    def state(self) -> State:
        layout = self.layout
        channels = sorted(self.channels.items())
        return (
            layout.times(self.now),
            self.faults,
            self.script,
            layout.away(self.away),
            layout.times(self.disturbed_s),
            *self.numbers,
            *(number for channel in channels for number in channel),
        )

    def process(self, name: str) -> Process:
        return self.layout.steps.processes[self.numbers[self.layout.index[name]]]

    # Steps

    def take(self, name: str, source: str, message: Hashable) -> None:
        """The process takes this input now; what it puts out is under way."""
        self._take(name, source, self.layout.steps.messages(message))

    def deliver(self, pair: int) -> None:
        """The head of a channel arrives."""
        layout = self.layout
        queue = layout.queues.values[self.channels[pair]]
        if len(queue) > 1:
            self.channels[pair] = layout.queues(queue[1:])
        else:
            del self.channels[pair]
        source, target = layout.pairs.values[pair]
        self._take(target, source, queue[0])

    def _take(self, name: str, source: str, message: int) -> None:
        layout = self.layout
        at = layout.index[name]
        self.numbers[at], puts, notes = layout.steps.take(name, self.numbers[at], source, message, self.now)
        if notes:
            self.notes += notes
        for target, each in puts:
            self._put(name, target, each)

    def _put(self, source: str, target: str, message: int) -> None:
        layout = self.layout
        if self.away and not self.away.isdisjoint(layout.links_of(source, target)):
            wish = {"subscribe": "wants", "unsubscribe": "wants no more"}.get(
                str(layout.steps.messages.values[message])
            )
            if wish is not None and target in layout.brokers:
                self.take(target, "", (wish, source))  # the library does it when it is connected again
            return
        pair = layout.pairs((source, target))
        awake = (target, target) not in self.away
        beside = layout.beside and target[1:] == source and awake and pair not in self.channels
        if beside and isinstance(layout.steps.messages.values[message], Envelope):
            self._take(target, source, message)
            return
        self._enqueue(pair, message)

    def _queue(self, source: str, target: str) -> tuple[int, ...]:
        number = self.channels.get(self.layout.pairs((source, target)))
        return () if number is None else self.layout.queues.values[number]

    def _remember(self, process: str, broker: str, message: int) -> None:
        """The library subscribes, or does not, when it is connected again."""
        match self.layout.steps.messages.values[message]:
            case "subscribe":
                self.take(broker, "", ("wants", process))
            case "unsubscribe":
                self.take(broker, "", ("wants no more", process))

    def _enqueue(self, pair: int, message: int) -> None:
        queues = self.layout.queues
        number = self.channels.get(pair)
        queue = (message,) if number is None else (*queues.values[number], message)
        if len(queue) > _LONGEST_QUEUE:
            raise Violated(f"a flood: one channel holds {len(queue)} messages")
        self.channels[pair] = queues(queue)

    # Connections

    def cut(self, process: str, broker: str, *, forgets: bool = False) -> None:
        """The connection breaks: what was under way on it is gone, and its process will notice."""
        if (process, broker) in self.away:
            if forgets:
                self.take(broker, "", ("wants no more", process))
            return
        answers, wishes = self._queue(broker, process), self._queue(process, broker)
        self.block((process, broker))
        self.take(broker, "", ("disconnected", process, forgets))
        if not forgets:
            if self.layout.steps.messages("subscribed") in answers:
                self.take(broker, "", ("unconfirmed", process))
            for message in wishes:
                self._remember(process, broker, message)
        if not forgets:
            self._enqueue(self.layout.pairs((broker, process)), self.layout.steps.messages("lost"))

    def reconnect(self, process: str, broker: str) -> None:
        self.away = self.away - {(process, broker)}
        self.take(broker, "", ("reconnected", process))

    def block(self, link: Link) -> None:
        self.away = self.away | {link}
        for pair in list(self.channels):
            if link in self.layout.links_of(*self.layout.pairs.values[pair]):
                del self.channels[pair]

    def unblock(self, link: Link) -> None:
        self.away = self.away - {link}

    def disconnect(self, process: str) -> None:
        """The process is gone, and with it all its connections."""
        for broker in self.layout.brokers:
            self.cut(process, broker, forgets=True)

    def connect_afresh(self, process: str) -> None:
        for name in self.layout.brokers:
            broker = self.process(name)
            assert isinstance(broker, Broker)
            if broker.up:
                self.away = self.away - {(process, name)}
