"""Runs to learn from: which ones, and at a real or the simulated broker. What was done before is not done again."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import numpy as np

from nearcast.lab.experiment import Progress
from nearcast.lab.workloads.colocated import Rates, drawn_together
from nearcast.pipeline.measurements import COLLECTED, DISCARDED, SIMULATED, TRAIN, VALIDATE, Rows, Run, append
from nearcast.pipeline.simulated_broker import simulated_latencies
from nearcast.predict.queueing import Processors

_TRIES = 8  # of a run that was disturbed
_AT_ONCE = 200  # simulated runs in one file


@dataclass(frozen=True, slots=True)
class Planned:
    name: str
    part: str
    interval_ms: tuple[float, ...]
    rate_hz: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """`left`: runs that were asked for and are not there: time was up, or they were disturbed each time. `lost`:
    deliveries that never came."""

    runs: int = 0
    discarded: int = 0
    left: int = 0
    lost: int = 0


def planned(
    topics: Sequence[int], *, runs: int, validate: int, most_hz: Rates, processors: Processors, seed: int, source: str
) -> list[Planned]:
    """For every number of topics `runs` to train on and `validate` to judge by. Numbers of topics take turns, and so do
    both parts, so that there are some of each whenever it ends. No run depends on how many there are: more can be
    asked for later.
    """

    def drawn(part: str, count: int) -> Iterator[Planned]:
        rng = np.random.default_rng([seed, count, part == VALIDATE, source == SIMULATED])
        for number in range(validate if part == VALIDATE else runs):
            interval_ms, rate_hz = (each[0].tolist() for each in drawn_together((1, count), most_hz, processors, rng))
            yield Planned(f"{source}-{seed}-{part}-{count}-{number:05}", part, tuple(interval_ms), tuple(rate_hz))

    by_turns = [zip(*(drawn(part, count) for count in topics), strict=True) for part in (VALIDATE, TRAIN)]
    return [each for both in zip_longest(*by_turns, fillvalue=()) for turn in both for each in turn]


def missing(plan: Sequence[Planned], folder: Path) -> list[Planned]:
    """What the folder does not have yet."""
    done = Rows([folder]).names if folder.is_dir() and any(folder.glob("*.parquet")) else frozenset()
    return [each for each in plan if each.name not in done]


def collect_simulated(
    plan: Sequence[Planned], folder: Path, processors: Processors, seed: int, progress: Progress
) -> Collected:
    left = missing(plan, folder)
    for start in range(0, len(left), _AT_ONCE):
        progress(start, len(left), "runs")
        part = left[start : start + _AT_ONCE]
        sets = [(np.array(each.interval_ms), np.array(each.rate_hz)) for each in part]
        found = simulated_latencies(sets, processors, seed + start)
        append(
            folder,
            (
                Run(
                    each.name,
                    SIMULATED,
                    TRAIN,
                    each.interval_ms,
                    each.rate_hz,
                    tuple(late.tolist() for late in topics),
                    processors.lasting_s,
                    processors.cores,
                )
                for each, topics in zip(part, found, strict=True)
            ),
        )
    return Collected(len(left))


async def collect(
    plan: Sequence[Planned],
    folder: Path,
    *,
    kind: str,
    lasting_s: float,
    warm_up_s: float,
    for_s: float | None,
    progress: Progress,
    say: Callable[[str], None] = lambda _text: None,
) -> Collected:
    """Measures what the folder does not have yet, for about `for_s`. Every run is written as soon as it is over.

    One that was disturbed is kept as discarded and tried again after all others: what disturbs a machine lasts.
    """
    from nearcast.lab.live.pinned import Topic, pinned_broker  # noqa: PLC0415  # starts servers

    left = deque((each, 0) for each in missing(plan, folder))
    wanted, done, discarded, lost = len(left), 0, 0, 0
    if not left:
        return Collected()
    begun_s = time.monotonic()
    async with pinned_broker(kind, lasting_s=lasting_s, warm_up_s=warm_up_s) as broker:
        while left and (for_s is None or time.monotonic() - begun_s <= for_s):
            progress(done, wanted, "runs")
            each, attempt = left.popleft()
            topics = [Topic(*pair) for pair in zip(each.interval_ms, each.rate_hz, strict=True)]
            heard = await broker.measure(topics, seed=_seed(each.name) + attempt)
            run = Run(
                each.name,
                COLLECTED,
                each.part,
                each.interval_ms,
                each.rate_hz,
                heard.late_ms,
                lasting_s,
                lag_ms=heard.lag_ms,
                stolen=heard.stolen,
            )
            if heard.fault is None:
                done += 1
            else:
                discarded += 1
                lost += heard.lost
                say(f"{each.name}: discarded, {heard.fault}")
                run = replace(run, part=DISCARDED, name=f"{each.name}-disturbed{attempt}")
                if attempt + 1 < _TRIES:
                    left.append((each, attempt + 1))
            if all(heard.late_ms):
                await asyncio.to_thread(append, folder, [run])
        progress(done, wanted, "runs")
    return Collected(done, discarded, wanted - done, lost)


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())
