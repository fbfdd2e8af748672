"""What scenarios on real servers have in common: a fleet and its promises, processes with clients, and one history."""

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from nearcast.domain.decision import Decision
from nearcast.domain.record import TopicRecord
from nearcast.domain.slo import Slo
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.experiment import Progress
from nearcast.lab.heard import Heard
from nearcast.lab.live.actors import ActorsSpec
from nearcast.lab.live.journal import merge
from nearcast.lab.live.led import operator_of, until_led
from nearcast.lab.live.stalls import Stalls, read_stalls, watched_stalls
from nearcast.lab.live.watched import decisions_on, watched_records
from nearcast.lab.promised import Observed, migrations
from nearcast.sim.check import check
from nearcast.sim.history import Event, History
from nearcast.transport.config import Config, load_config

_WINDOW_S = 1.0
WARM_UP_S = 20.0  # coordinates are found meanwhile
RUN_IN_S = 15.0  # topics find their brokers meanwhile
SETTLE_S = 5.0
_END_S = 20.0
_GRACE_S = 5.0
_NUMBERS = 1_000_000  # subscriptions of one process, at most

MakeSpec = Callable[[ActorsSpec, Path], ActorsSpec]
"""From what all actors are told, and the folder of the run, to what these are told."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`module` is run once for each of `parts`. What is heard apart are `lines`: `line(topic, part)`."""

    fleet: LocalSpec
    promises: Mapping[str, Slo]
    module: str
    parts: Sequence[MakeSpec]
    run_s: float
    lines: tuple[str, ...]
    line: Callable[[str, int], str]


def perform(scenario: Scenario, seed: int, progress: Progress) -> Observed:
    """Everything it starts has ended when it returns."""
    return asyncio.run(_Stage(scenario, seed, progress).perform())


class _Stage:
    def __init__(self, scenario: Scenario, seed: int, progress: Progress) -> None:
        self._scenario = scenario
        self._seed = seed
        self._progress = progress
        self._events: list[Event] = []
        self._journals: list[Path] = []

    async def perform(self) -> Observed:
        scenario = self._scenario
        with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as name:
            folder = Path(name)
            async with Supervisor(folder) as supervisor:
                config = load_config(await launch(supervisor, scenario.fleet))
                await until_led(config, scenario.fleet.brokers)
                async with operator_of(config) as operator:
                    for topic, slo in scenario.promises.items():
                        await operator.promise(topic, slo)
                async with watched_records(config, self._moved):
                    await asyncio.sleep(WARM_UP_S)
                    parts = [await self._start(part, config, folder) for part in range(len(scenario.parts))]
                    async with watched_stalls(folder) as files:
                        try:
                            begin_s = await self._play(parts, folder)
                        finally:
                            await asyncio.gather(*(part.stop(_END_S) for part in parts))
                decisions = await decisions_on(config, scenario.promises)
            history = merge(self._journals, *self._events)
            stalls = read_stalls(files)
        return observed(history, scenario, begin_s, stalls, decisions)

    async def _play(self, parts: list[Command], folder: Path) -> float:
        begin_s = time.time() + RUN_IN_S
        (folder / "begin").write_text(repr(begin_s))
        for part in parts:
            part.send(signal.SIGUSR1)
        whole = int(self._scenario.run_s)
        await asyncio.sleep(RUN_IN_S)
        for second in range(whole):
            self._progress(second, whole, "seconds")
            await asyncio.sleep(max(0.0, begin_s + second + 1 - time.time()))
        await asyncio.sleep(SETTLE_S)
        self._events.append(("finished", time.time()))
        return begin_s

    def _moved(self, record: TopicRecord) -> None:
        self._events.append(("move", time.time(), record.topic, record.newest.epoch, record.phase))

    async def _start(self, part: int, config: Config, folder: Path) -> Command:
        journal, file = folder / f"actors-{part}.journal", folder / f"actors-{part}.json"
        self._journals.append(journal)
        common = ActorsSpec(str(config.path), str(journal), str(folder / "begin"), 1 + part * _NUMBERS, self._seed)
        file.write_bytes(msgspec.json.encode(self._scenario.parts[part](common, folder)))
        argv = (sys.executable, "-m", self._scenario.module, str(file))
        return await Command.start(CommandSpec(file.stem, "clients", argv, start_s=120.0), folder)


def observed(
    history: History, scenario: Scenario, begin_s: float, stalls: Stalls, decisions: Iterable[Decision] = ()
) -> Observed:
    """From what all processes wrote down, on one wall clock. What was under way in a stall is not heard."""
    heard, whole = Heard(scenario.lines, _WINDOW_S), Heard(scenario.lines, _WINDOW_S)
    takes = {line: (heard[line], whole[line]) for line in scenario.lines}
    sent: dict[tuple[int, int], tuple[str, float]] = {}
    for event in history.events:
        if event[0] == "publish":
            _, at_s, publisher, topic, seq = event
            sent[publisher, seq] = topic, at_s
        elif event[0] == "delivered":
            _, at_s, number, publisher, seq = event
            topic, sent_s = sent[publisher, seq]
            hear, note = takes[scenario.line(topic, number // _NUMBERS)]
            note(sent_s - begin_s, at_s - sent_s)
            if not stalls.during(sent_s, at_s):
                hear(sent_s - begin_s, at_s - sent_s)
    moved = migrations((kind, at_s - begin_s, *rest) for kind, at_s, *rest in history.events)
    counts = check(history, grace_s=_GRACE_S).counts()
    stalled_s = stalls.total_s(begin_s, begin_s + scenario.run_s)
    since = tuple(replace(each, at_s=each.at_s - begin_s) for each in decisions)
    return Observed(heard, moved, counts, whole, stalled_s, since)
