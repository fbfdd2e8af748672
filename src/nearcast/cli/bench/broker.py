"""`nearcast bench broker`."""

import contextlib
import enum
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from nearcast.cli.options import ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.cli.progress import progress_bar
from nearcast.domain.errors import ConfigError
from nearcast.fleet.cpu import CpuShare
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.lab.experiment import Progress
from nearcast.lab.live.profile import OUTPUT, Profile, measure
from nearcast.transport.config import load_config
from nearcast.transport.config_edit import write_figure
from nearcast.transport.endpoint import Endpoint

KEY = "out_messages_per_s"
_SHOWN = 24  # runs in the table
_RUN_S = 1.5


class Kind(enum.StrEnum):
    NATS = "nats"
    REDIS = "redis"


def bench_broker(
    *,
    broker: Annotated[
        str, typer.Option(metavar="NAME", help="A broker of the configuration; else a server is started for this.")
    ] = "",
    kind: Annotated[Kind, typer.Option("--brokers", help="What is started.")] = Kind.NATS,
    share: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Of a processor, for the server that is started.")
    ] = 0.2,
    minutes: Annotated[float, typer.Option(min=0.02, help="How long.")] = 3.0,
    seed: Annotated[int, typer.Option(help="Of the traffic.")] = 0,
    write: Annotated[bool, typer.Option("--write", help=f"Write {KEY} of that broker into the configuration.")] = False,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find out which traffic makes a server late, and how much of it: its watermark.

    Runs of varying numbers of topics, publishers and subscribers, sizes and rates; messages are timed from end to end.
    Shown is how strongly the 95th percentile follows each parameter (Spearman's rank correlation), and the output rate
    at which it leaves the floor. Runs in which the load generator itself was late do not count.

    A server that is started gets a share of a processor, so that it is late before the load generator is. A broker of
    the configuration should have nothing else to do meanwhile.
    """
    if write and not broker:
        raise ConfigError(f"--write: say with --broker whose {KEY} it is")
    with progress_bar(wanted=not as_json) as progress:
        if broker:
            path, endpoint = _configured(broker, config)
            found = uvloop.run(
                measure(endpoint, pid=None, for_s=60 * minutes, run_s=_RUN_S, seed=seed, progress=progress)
            )
        else:
            path, found = None, uvloop.run(_own(kind.value, share, 60 * minutes, seed, progress))
    watermark_hz = None if found.watermark_hz is None else float(round(found.watermark_hz))
    if write and path is not None and watermark_hz is not None:
        write_figure(path, broker, KEY, watermark_hz)
    if as_json:
        print_json({"seed": seed, "minutes": minutes, **asdict(found), KEY: watermark_hz, "written": write})
    else:
        _show(found, watermark_hz)
        if write and path is not None and watermark_hz is not None:
            print(f"{path}: {KEY} of {broker} is {watermark_hz:.0f}")
    if write and watermark_hz is None:
        raise typer.Exit(1)


async def _own(kind: str, share: float, for_s: float, seed: int, progress: Progress) -> Profile:
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as name, contextlib.ExitStack() as limits:
        server = await Server.start(ServerSpec(kind, "broker"), Path(name))
        try:
            if share < 1:
                limits.enter_context(CpuShare(server.pid, share))
            return await measure(
                server.endpoint, pid=server.pid, for_s=for_s, run_s=_RUN_S, seed=seed, progress=progress
            )
        finally:
            limits.close()
            await server.kill()


def _configured(broker: str, config: Path | None) -> tuple[Path, Endpoint]:
    loaded = load_config(config)
    if broker not in loaded.brokers:
        raise ConfigError(f"{loaded.path}: no broker {broker!r}; brokers are {', '.join(loaded.brokers)}")
    endpoint = loaded.brokers[broker].endpoint
    if endpoint.tls is not None or endpoint.password is not None:
        raise ConfigError(
            f"{loaded.path}: broker {broker!r} asks for TLS or a password, which this bench does not speak"
        )
    return loaded.path, endpoint


def _show(found: Profile, watermark_hz: float | None) -> None:
    rows = sorted(found.rows, key=lambda row: row.output_rate_hz)
    step = max(1, -(-len(rows) // _SHOWN))
    print_table(
        ("output msg/s", "topics", "pub", "sub", "bytes", "p50 ms", "p95 ms", "p99 ms", "delivered", "processors"),
        [
            (
                f"{row.output_rate_hz:,.0f}",
                str(row.topics),
                str(row.publishers),
                str(row.subscribers),
                str(row.size_bytes),
                f"{row.p50_ms:.2f}",
                f"{row.p95_ms:.2f}",
                f"{row.p99_ms:.2f}",
                f"{row.delivered_ratio:.1%}",
                "" if row.cores is None else f"{row.cores:.2f}",
            )
            for row in rows[::step]
        ],
    )
    print("rank correlation with p95:")
    print_table(("parameter", "correlation"), [(name, f"{value:+.2f}") for name, value in found.tellers.items()])
    left_out = f"; {found.discarded} left out: the load generator was late" if found.discarded else ""
    print(f"{len(found.rows)} runs{left_out}")
    best = next(iter(found.tellers), "")
    if best and best != OUTPUT:
        print(f"here {best} tells p95 better than {OUTPUT}, which the watermark is of")
    if watermark_hz is None:
        print("no knee was found: p95 does not leave the floor, or there were too few runs")
    else:
        print(f"p95 leaves the floor at {watermark_hz:,.0f} messages/s out")
