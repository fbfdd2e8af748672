"""EP-12: which traffic parameter tells a server's latency, and where its knee is; live.

The server has a share of a processor, so that it is late before the load generator is (section 5.4 had a machine for
each). What is found is what `nearcast bench broker` finds: it is the same code.
"""

import asyncio
import contextlib
import tempfile
from dataclasses import astuple, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.fleet.cpu import CpuShare
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.profile import OUTPUT, Profile, Row, measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHARE = 0.2
_FOR_S, _QUICK_FOR_S = 360.0, 25.0
_RUN_S, _QUICK_RUN_S = 1.5, 0.6

FIRST = Expectation("EP-12", "traffic parameters that tell p95 better than the output rate does", "== 0")
KNEE = Expectation("EP-12", "output rate at the knee, the watermark (messages/s)", "> 0")


def _measure(settings: RunSettings, progress: Progress) -> Outcome:
    kind = settings.brokers or "nats"
    found = asyncio.run(_profile(kind, settings, progress))
    better = list(found.tellers).index(OUTPUT) if found.tellers else None
    return Outcome(
        claims=(FIRST.judge(better), KNEE.judge(found.watermark_hz)),
        metrics={
            "brokers": kind,
            "share": _SHARE,
            "runs": len(found.rows),
            "discarded": found.discarded,
            "too_much_hz": found.limit_hz,
            "rank_correlation": {name: round(value, 3) for name, value in found.tellers.items()},
            "watermark_hz": found.watermark_hz,
        },
        tables={"runs": Table(tuple(each.name for each in fields(Row)), tuple(astuple(row) for row in found.rows))},
        figures={"profile": partial(_draw, found, kind)},
    )


async def _profile(kind: str, settings: RunSettings, progress: Progress) -> Profile:
    for_s, run_s = (_QUICK_FOR_S, _QUICK_RUN_S) if settings.quick else (_FOR_S, _RUN_S)
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder, contextlib.ExitStack() as limits:
        server = await Server.start(ServerSpec(kind, "broker"), Path(folder))
        try:
            limits.enter_context(CpuShare(server.pid, _SHARE))
            return await measure(
                server.endpoint, pid=server.pid, for_s=for_s, run_s=run_s, seed=settings.seed, progress=progress
            )
        finally:
            limits.close()
            await server.kill()


def _draw(found: Profile, kind: str, figure: "Figure") -> None:
    axes = figure.add_subplot()
    for size in sorted({row.size_bytes for row in found.rows}):
        mine = [row for row in found.rows if row.size_bytes == size]
        axes.scatter([row.output_rate_hz for row in mine], [row.p95_ms for row in mine], s=18, label=f"{size} bytes")
    if found.watermark_hz is not None:
        label = f"knee: {found.watermark_hz:,.0f} messages/s"
        axes.axvline(found.watermark_hz, color="gray", linestyle="--", linewidth=1, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("output rate (messages/s)")
    axes.set_ylabel("p95, end to end (ms)")
    correlation = found.tellers.get(OUTPUT, 0.0)
    axes.set_title(f"{kind}, {_SHARE:g} of a processor; rank correlation {correlation:.2f}")
    axes.legend(fontsize="small")


EXPERIMENT = Experiment(
    name="epulsar.profile",
    paper="ePulsar, section 5.4",
    summary="which traffic parameter tells the 95th percentile of a server's latency, and where its knee is",
    expectations=(FIRST, KNEE),
    modes=("live",),
    measure=_measure,
    options=("brokers",),
)
