"""Runs to learn from: which ones, and at a real or the simulated broker. What was done before is not done again."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from nearcast.lab.experiment import Progress
from nearcast.lab.workloads.colocated import Rates, drawn_together
from nearcast.pipeline.measurements import COLLECTED, DISCARDED, SIMULATED, TRAIN, VALIDATE, Rows, Run, append
from nearcast.pipeline.simulated_broker import simulated_latencies
from nearcast.predict.queueing import Processors

MOST_LAG_MS = 5.0
_TRIES = 3  # of a run whose load generator was late
_AT_ONCE = 200  # simulated runs in one file


@dataclass(frozen=True, slots=True)
class Planned:
    name: str
    part: str
    interval_ms: tuple[float, ...]
    rate_hz: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """`left`: runs that were asked for and there was no time for. `lost`: deliveries that never came."""

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
    """Measures what the folder does not have yet, for about `for_s`. Every run is written as soon as it is over."""
    from nearcast.lab.live.pinned import Topic, pinned_broker  # noqa: PLC0415  # starts servers

    left = missing(plan, folder)
    if not left:
        return Collected()
    done = discarded = lost = 0
    begun_s = time.monotonic()
    async with pinned_broker(kind, lasting_s=lasting_s, warm_up_s=warm_up_s) as broker:
        for number, each in enumerate(left):
            progress(number, len(left), "runs")
            topics = [Topic(*pair) for pair in zip(each.interval_ms, each.rate_hz, strict=True)]
            for attempt in range(_TRIES):
                if for_s is not None and time.monotonic() - begun_s > for_s:
                    return Collected(done, discarded, len(left) - done, lost)
                heard = await broker.measure(topics, seed=_seed(each.name) + attempt)
                in_time = heard.lag_ms <= MOST_LAG_MS
                lost += heard.lost
                whole = all(heard.late_ms) and not heard.lost
                part, name = (each.part, each.name) if in_time and whole else (DISCARDED, f"{each.name}-late{attempt}")
                if all(heard.late_ms):
                    run = Run(
                        name, COLLECTED, part, each.interval_ms, each.rate_hz, heard.late_ms, lasting_s, 1, heard.lag_ms
                    )
                    await asyncio.to_thread(append, folder, [run])
                if part != DISCARDED:
                    done += 1
                    break
                discarded += 1
                say(f"{each.name}: discarded, the load generator was {heard.lag_ms:.1f} ms late, {heard.lost} lost")
        progress(len(left), len(left), "runs")
    return Collected(done, discarded, len(left) - done, lost)


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())
