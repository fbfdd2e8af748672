"""What is wrong with a state of the explored world, if anything."""

from __future__ import annotations

import math

from nearcast.domain.report import Discontinuity, Gap
from nearcast.sim.explored_draft import Layout
from nearcast.sim.explored_outbox import COORDINATOR
from nearcast.sim.explored_processes import Coordinator, Publishing, Subscribing
from nearcast.sim.explored_scenario import Scenario
from nearcast.sim.explored_state import PROCESSES, State
from nearcast.sim.explored_telling import told


def missing(layout: Layout, state: State) -> list[str]:
    """Messages under the promise that were neither delivered nor reported."""
    subscribing = layout.process(state, "S")
    assert isinstance(subscribing, Subscribing)
    out: list[str] = []
    for process in _publishing(layout, state):
        publisher = process.machine.id
        seen = subscribing.seen.get(publisher, ())
        out += [
            f"{publisher}:{seq}"
            for seq, (sent_s, reported) in process.sent.items()
            if seq not in seen and not _reported(subscribing, publisher, seq, sent_s, reported)
        ]
    return out


def _reported(subscribing: Subscribing, publisher: int, seq: int, sent_s: float, reported: int) -> bool:
    """A discontinuity that was over before the message was published does not excuse its loss."""
    for index, report in enumerate(subscribing.reports):
        if isinstance(report, Gap):
            excused = report.publisher == publisher and report.covers(seq)
        elif report.to_s is None:
            excused = report.from_s <= sent_s and not _closed(subscribing, report, index)
        else:
            excused = report.from_s <= sent_s and index >= reported
        if excused:
            return True
    return False


def _closed(subscribing: Subscribing, opened: Discontinuity, index: int) -> bool:
    """Whether a later report gives this one its end and so replaces it."""
    return any(
        isinstance(later, Discontinuity) and (later.broker, later.from_s) == (opened.broker, opened.from_s)
        for later in subscribing.reports[index + 1 :]
    )


def verdict(scenario: Scenario, layout: Layout, state: State) -> str | None:
    """What is wrong with this state, after which nothing happens any more."""
    lost = missing(layout, state)
    if lost:
        return f"lost silently: {', '.join(lost)}"
    subscribing = layout.process(state, "S")
    assert isinstance(subscribing, Subscribing)
    if not subscribing.machine.ready or subscribing.machine.moving:
        return "the subscriber does not settle"
    coordinator = layout.process(state, COORDINATOR)
    assert isinstance(coordinator, Coordinator)
    move = coordinator.machine
    if not (move.finished or (move.draining and not scenario.to_the_end)):
        return f"the move does not end: {move.record.phase}"
    if unpublished(layout, state, math.inf):
        return "a publisher may never publish again"
    if not scenario.faults and (alarms := _false_alarms(layout, state, subscribing)):
        return f"a false alarm: {told(alarms[0])}"
    if still_open := open_reports(subscribing):
        return f"never closed: {told(still_open[0])}"
    return None


def _false_alarms(layout: Layout, state: State, subscribing: Subscribing) -> list[Gap | Discontinuity]:
    """Reports without a cause; a gap only of what was published before `subscribe()` returned alarms nobody."""
    owed = {each.machine.id: each.sent for each in _publishing(layout, state)}
    return [
        report
        for report in subscribing.reports
        if isinstance(report, Discontinuity) or any(report.covers(seq) for seq in owed[report.publisher])
    ]


def _publishing(layout: Layout, state: State) -> list[Publishing]:
    processes = [layout.steps.processes[at] for at in state[PROCESSES : PROCESSES + len(layout.names)]]
    return [each for each in processes if isinstance(each, Publishing)]


def unpublished(layout: Layout, state: State, now: float) -> bool:
    """Whether a publisher waits for a route before it can go on."""
    return any(each.to_send and not each.may_publish(now) for each in _publishing(layout, state))


def open_reports(subscribing: Subscribing) -> list[Discontinuity]:
    """Discontinuities without an end."""
    return [
        report
        for index, report in enumerate(subscribing.reports)
        if isinstance(report, Discontinuity) and report.to_s is None and not _closed(subscribing, report, index)
    ]


def outcome(layout: Layout, state: State) -> object:
    """What a user of the subscriber would tell apart."""
    subscribing = layout.process(state, "S")
    assert isinstance(subscribing, Subscribing)
    seen = tuple(sorted((publisher, tuple(seqs)) for publisher, seqs in subscribing.seen.items()))
    attached = tuple(sorted(subscribing.machine.attachments))
    return seen, tuple(subscribing.reports), attached
