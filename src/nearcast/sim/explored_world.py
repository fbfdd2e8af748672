"""The explored world of one scenario: its first state, what can happen in a state, and what it leads to."""

from __future__ import annotations

import math

from nearcast.control.dispatcher import Dispatcher
from nearcast.control.move import Move
from nearcast.control.publisher import Publisher
from nearcast.control.subscriber import Subscriber
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.ring import Ring
from nearcast.domain.route import route
from nearcast.sim import explored_faults as faults
from nearcast.sim.explored_broker import Broker
from nearcast.sim.explored_draft import Draft, Layout, Link
from nearcast.sim.explored_judge import missing, open_reports, unpublished
from nearcast.sim.explored_order import Order
from nearcast.sim.explored_outbox import COORDINATOR, Violated, agent_of
from nearcast.sim.explored_processes import Agent, Coordinator, Process, Publishing, Subscribing
from nearcast.sim.explored_scenario import Scenario
from nearcast.sim.explored_state import AWAY, DISTURBED, FAULTS, NOW, PROCESSES, SCRIPT, State
from nearcast.sim.explored_telling import told

Event = tuple[str, str, str]
"""What happens, to whom, and from where: a delivery, a process's own doing, or a fault."""

SUBSCRIBER = "S"

_BEGINS_S = 10.0  # some time after everybody has settled: nothing new coincides with what was before


class World:
    __slots__ = ("_deliveries", "layout", "order", "ring", "scenario")

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.ring = Ring(scenario.first_ring)
        publishers = tuple(f"P{number}" for number in range(len(scenario.publishers)))
        agents = tuple(agent_of(broker) for broker in scenario.brokers)
        names = (*scenario.brokers, COORDINATOR, *agents, *publishers, SUBSCRIBER)
        self.layout = Layout(names, scenario)
        self.order = Order(scenario, self.layout)
        self._deliveries: dict[int, Event] = {}

    # The first state

    def first(self) -> State:
        """The topic stands on its first route; whoever does not come later is settled on it."""
        layout, scenario = self.layout, self.scenario
        numbers = [layout.steps.number(name, self._process(name)) for name in layout.names]
        start = layout.times(0.0)
        draft = Draft(layout, (start, 2 ** len(scenario.faults) - 1, 0, layout.away(frozenset()), start, *numbers))
        if not scenario.next_ring:
            for broker in dict.fromkeys((self.ring.owner(scenario.topic), *scenario.first[1])):
                draft.take(COORDINATOR, "", ("back", broker))
        self._settle(draft)
        for name in layout.names:
            process = draft.process(name)
            if isinstance(process, Publishing | Subscribing) and process.started:
                draft.take(name, "", "tick")
                self._settle(draft)
        draft.now = draft.disturbed_s = _BEGINS_S
        draft.notes.clear()
        return draft.state()

    def _process(self, name: str) -> Process:
        scenario, ring = self.scenario, self.ring
        topic, timing, rules = scenario.topic, scenario.timing, scenario.rules
        if name in scenario.brokers:
            last = self.order.last_epoch if scenario.reduced and rules.visited else None
            return Broker(name, concurrent=scenario.concurrent, last_epoch=last)
        if name == COORDINATOR:
            return self._coordinator()
        if name == SUBSCRIBER:
            if scenario.next_ring:
                ring = Ring(scenario.next_ring, 1)  # it starts later, and was given the newer ring
            subscriber = Subscriber(topic, scenario.subscriber_key, name, ring, timing=timing, rules=rules)
            return Subscribing(subscriber, started=not scenario.joins)
        if name.startswith("P"):
            publisher = Publisher(topic, scenario.publishers[int(name[1:])], name, ring, timing=timing, rules=rules)
            return Publishing(publisher, scenario.messages, started=not scenario.opens)
        dispatcher = Dispatcher(name[1:], 1, ring, timing, rules)
        dispatcher.lease_until_s = math.inf
        return Agent(dispatcher, topic)

    def _coordinator(self) -> Coordinator:
        scenario = self.scenario
        epoch = 0 if scenario.next_ring else 1
        next_ring = Ring(scenario.next_ring, 1) if scenario.next_ring else None
        record = TopicRecord(scenario.topic, Phase.DONE, (route(epoch, *scenario.first),), epoch, term=1)
        directory = (next_ring or self.ring).owner(scenario.topic)
        moves = scenario.moves if scenario.rules.pin_ring or not next_ring else ()
        move = Move(record, directory, scenario.timing, scenario.rules)
        return Coordinator(move, moves, eager=scenario.eager, next_ring=next_ring)

    def _settle(self, draft: Draft) -> None:
        """Lets everything under way arrive, in one order, and a subscriber linger."""
        while True:
            while draft.channels:
                draft.deliver(next(iter(draft.channels)))
            if self._next_s(draft) > self.scenario.timing.linger_s:
                return
            self._pass_time(draft)

    # What can happen

    def events(self, state: State) -> list[Event]:
        """Every event that can happen next; with `reduced`, fewer where their order makes no difference."""
        now = self.layout.times.values[state[NOW]]
        away = self.layout.away.values[state[AWAY]]
        under_way: list[Event] = []
        workload: list[Event] = []
        alone = self._deliveries_in(state, now, away, under_way, workload)
        alone = alone or self._doings(state, now, away, under_way, workload)
        if alone is not None:
            return [alone]
        if self.scenario.faults:
            under_way += faults.prompt(self.scenario, self.layout, state)
            workload += faults.possible(self.scenario, state)
        if not under_way and not self._soon(state) and self._time_matters(state, now):
            under_way.append(("time", "", ""))
            if not self.scenario.script and now > self.layout.times.values[state[DISTURBED]]:
                workload = [event for event in workload if not faults.ends(event)]
        elif under_way and self.scenario.one_by_one:
            workload = [event for event in workload if event[0] != "move"]
        if self.scenario.script:
            workload = [event for event in workload if self._is_next(state, event, under_way)]
        return under_way + workload

    def _soon(self, state: State) -> bool:
        """Whether the script lets no time pass now."""
        script, place = self.scenario.script, state[SCRIPT]
        return place < len(script) and script[place].startswith("!")

    def _is_next(self, state: State, event: Event, under_way: list[Event]) -> bool:
        """Whether the script, so far as it has come, lets this happen now."""
        kind, name, what = event
        if kind == "deliver":
            return True
        token = f"{what} {name}" if kind == "fault" else f"{kind} {name}"
        place = state[SCRIPT]
        match self.scenario.script[place : place + 1]:
            case (wanted,) if wanted in (f"={token}", f"!{token}"):
                return not under_way
            case (wanted,) if wanted == token:
                return not under_way or under_way[0][0] == "time"
            case (wanted,):
                return wanted == f"~{token}"
            case _:
                return False

    def _deliveries_in(
        self, state: State, now: float, away: frozenset[Link], under_way: list[Event], late: list[Event]
    ) -> Event | None:
        """Adds what can arrive; returns the one that may as well arrive at once."""
        layout, processes = self.layout, self.layout.steps.processes
        for pair, queue in layout.channels(state):
            source, target = layout.pairs.values[pair]
            if away and (target, target) in away:
                continue
            if source == faults.FORMER:
                late.append(self._delivery(pair))  # a leader that was replaced may have slept before it spoke
                continue
            at = state[PROCESSES + layout.index[target]]
            process = processes[at]
            if isinstance(process, Broker) and source in process.busy:
                continue  # a connection's frames are handled one after the other
            if self.order.at_once(state, pair, at, layout.queues.values[queue][0], now):
                return self._delivery(pair)
            under_way.append(self._delivery(pair))
        return None

    def _doings(
        self, state: State, now: float, away: frozenset[Link], under_way: list[Event], workload: list[Event]
    ) -> Event | None:
        """Adds what processes can do of themselves; returns what may as well be done at once."""
        steps = self.layout.steps
        for name, at in zip(self.layout.names, state[PROCESSES:], strict=False):
            if away and (name, name) in away:
                continue
            process = steps.processes[at]
            match process:
                case Broker():
                    for sender, busy in process.busy.items():
                        under_way += [("hand on", name, f"{sender}>{receiver}") for receiver in busy.waiting]
                case Publishing(started=False):
                    workload.append(("open", name, ""))
                case Publishing() if process.may_publish(now):
                    workload.append(("publish", name, ""))
                case Subscribing(started=False):
                    workload.append(("subscribe", name, ""))
                case Coordinator(unsaved=[_, *_]):
                    if self.order.writes_at_once(state):
                        return ("write", name, "")
                    under_way.append(("write", name, ""))
                    continue
                case Coordinator():
                    if process.may_begin():
                        workload.append(("move", name, ""))
                    if process.may_change_ring():
                        workload.append(("change ring", name, ""))
            if steps.wake_s[at] <= now:
                if self.order.ticks_at_once(state, name):
                    return ("tick", name, "")
                under_way.append(("tick", name, ""))
        return None

    def _delivery(self, pair: int) -> Event:
        event = self._deliveries.get(pair)
        if event is None:
            source, target = self.layout.pairs.values[pair]
            event = self._deliveries[pair] = ("deliver", target, source)
        return event

    def _time_matters(self, state: State, now: float) -> bool:
        """Whether a timer can still bring something: until all is settled, and for a while after the last event.

        Before a fault, when all is settled, more time brings nothing new; between a fault and its end it does.
        """
        scenario, timing = self.scenario, self.scenario.timing
        since_s = now - self.layout.times.values[state[DISTURBED]]
        if scenario.faults and faults.lasts(scenario, state[FAULTS]):
            return since_s < 3 * timing.lease_s
        if since_s >= (5 * timing.lease_s if scenario.to_the_end else 2 * timing.retry_s):
            return False
        subscribing = self.layout.process(state, SUBSCRIBER)
        coordinator = self.layout.process(state, COORDINATOR)
        assert isinstance(subscribing, Subscribing)
        assert isinstance(coordinator, Coordinator)
        if (subscribing.machine.moving and subscribing.started) or missing(self.layout, state):
            return True
        if open_reports(subscribing) or unpublished(self.layout, state, now):
            return True
        move = coordinator.machine
        return not (move.finished or (move.draining and not scenario.to_the_end))

    # What happens

    def after(self, state: State, event: Event) -> State:
        """Raises Violated when the event itself is a finding."""
        draft = Draft(self.layout, state)
        self._do(draft, event)
        return draft.state()

    def tell(self, events: list[Event]) -> tuple[str, ...]:
        """What happens from the first state on, in words."""
        state = self.first()
        lines: list[str] = []
        for kind, name, source in events:
            draft = Draft(self.layout, state)
            label = ""
            if kind == "deliver":
                queue = self.layout.queues.values[draft.channels[self.layout.pairs((source, name))]]
                label = f"{source} -> {name}: {told(self.layout.steps.messages.values[queue[0]])}"
            elif kind == "tick":
                label = f"{name}'s timer"
            found = ""
            try:
                self._do(draft, (kind, name, source))
            except Violated as violated:
                found = str(violated)
            first, *rest = [label, *draft.notes, *([found] if found else [])]
            if not first and rest:
                first, *rest = rest
            lines.append(first + "".join(f"  [{note}]" for note in rest))
            state = draft.state()
        return tuple(lines)

    def _do(self, draft: Draft, event: Event) -> None:
        kind, name, source = event
        match kind:
            case "deliver":
                draft.deliver(self.layout.pairs((source, name)))
                return
            case "hand on":
                sender, _, receiver = source.partition(">")
                draft.take(name, "", ("hand on", sender, receiver))
                return
            case "write" | "tick":
                draft.take(name, "", kind)
                return
            case "time":
                self._pass_time(draft)
                return
        draft.disturbed_s = draft.now
        if self.scenario.script and kind in ("publish", "subscribe", "open", "move", "change ring", "fault"):
            draft.script += 1
        match kind:
            case "publish":
                subscribing = draft.process(SUBSCRIBER)
                assert isinstance(subscribing, Subscribing)
                draft.take(name, "", ("publish", subscribing.machine.ready, len(subscribing.reports)))
            case "subscribe" | "open":
                draft.notes.append(f"{name} {kind}s")
                draft.take(name, "", "start")
            case "move":
                draft.take(name, "", "begin")
            case "change ring":
                draft.notes.append("C announces the next ring")
                draft.take(name, "", kind)
            case _:
                faults.happen(self.scenario, draft, event)

    def _pass_time(self, draft: Draft) -> None:
        draft.now = max(draft.now, self._next_s(draft))
        draft.notes.append(f"time passes to {draft.now:g} s")
        for name, at in zip(self.layout.names, tuple(draft.numbers), strict=True):
            if self.layout.steps.wake_s[at] <= draft.now and (name, name) not in draft.away:
                draft.take(name, "", "tick")

    def _next_s(self, draft: Draft) -> float:
        """When the next timer of a process that is awake runs out."""
        wake_s = self.layout.steps.wake_s
        numbers = zip(self.layout.names, draft.numbers, strict=True)
        due = [wake_s[at] for name, at in numbers if (name, name) not in draft.away]
        return min(*due, faults.next_s(self.layout, draft))
