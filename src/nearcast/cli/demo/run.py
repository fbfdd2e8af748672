"""`nearcast demo`."""

import asyncio
import contextlib
import sys
import tempfile
import time
import webbrowser
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from nearcast.cli.connect import operator_of
from nearcast.cli.demo.show import Scene, line, screen
from nearcast.cli.demo.swarms import Swarms, demo_flight
from nearcast.cli.demo.tally import TopicTally
from nearcast.cli.demo.watch import watch
from nearcast.cli.output import print_json
from nearcast.cli.token import dashboard_link
from nearcast.domain.errors import LeaseLost, LinkDown
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.report import Discontinuity, Gap
from nearcast.fleet.local import WAN_SOCKET, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.fleet.wan_main import WanControl
from nearcast.lab.live.led import until_led
from nearcast.lab.live.uav import fleet_of
from nearcast.lab.live.watched import watched_records
from nearcast.sim.check import CheckResult, check
from nearcast.sim.history import History
from nearcast.sim.recorder import Recorder
from nearcast.transport.config import Config, load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped

_SETTLE_S = 4.0
_GRACE_S = 5.0
_LOOK_S = 0.5
_CAPACITY = 150e3  # bytes a second of each server: enough, and little enough for loads to be seen


def show_demo(
    context: typer.Context,
    *,
    seconds: Annotated[float, typer.Option(min=5, help="How long it runs.")] = 75.0,
    forever: Annotated[bool, typer.Option("--forever", help="Run until Ctrl-C.")] = False,
    brokers: Annotated[Literal["nats", "redis"], typer.Option(help="The kind of servers.")] = "nats",
    seed: Annotated[int, typer.Option(min=0, help="Chooses who goes where.")] = 0,
    headless: Annotated[bool, typer.Option("--headless", help="Open no browser.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of the dashboard; 0 is a free one.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing before.")] = False,
) -> None:
    """Show swarms of drones that cross zones, on three real servers with emulated distances, and a dashboard.

    Each swarm's topics are promised to arrive within 40 ms. When a swarm comes to another zone that is broken; its
    topics are moved to the zone's broker, and it is kept again. Ends with the verdict of the history checker: exit code
    1 when a message was lost without a report, repeated or out of order.
    """
    if context.invoked_subcommand is not None:
        return
    demo = _Demo(brokers, None if forever else seconds, seed, port)
    opens = not headless and not as_json and sys.stdout.isatty()
    raise typer.Exit(run_until_stopped(lambda stopped: demo.run(stopped, as_json=as_json, opens=opens)))


class _Demo:
    def __init__(self, kind: str, seconds: float | None, seed: int, port: int) -> None:
        flight = demo_flight(seconds, seed)
        web = find_spec("starlette") is not None and find_spec("prometheus_client") is not None
        self.fleet = replace(fleet_of(flight, kind), web=web, port=port, out_bytes_per_s=_CAPACITY)
        tallies = {topic: TopicTally() for topic in flight.topics}
        sites = {broker: self.fleet.site(number) for number, broker in enumerate(flight.brokers)}
        self.scene = Scene(sites, kind, tallies, seconds)
        self.history = History()
        self.crew = Crew()
        recorder = Recorder(self.history, time.time)
        self.swarms = Swarms(flight, self.fleet, recorder, tallies, crossed=self._crossed, told=self._told)

    async def run(self, stopped: asyncio.Event, *, as_json: bool, opens: bool) -> int:
        terminal = Console(stderr=as_json)
        with tempfile.TemporaryDirectory(prefix="nearcast-demo-") as folder:
            supervisor = Supervisor(Path(folder), say=self.scene.news.append)
            if not as_json:
                terminal.print(f"starting {self.fleet.sites} {self.fleet.kind} servers, agents and a coordinator ...")
            result: CheckResult | None = None

            async def play(supervisor: Supervisor) -> None:
                nonlocal result
                config = load_config(await launch(supervisor, self.fleet))
                found = [str(child.facts["web"]) for child in supervisor.status.children if "web" in child.facts]
                pages = [dashboard_link(page, config) for page in found]  # let in whoever sees this terminal
                self.scene.page = pages[0] if pages else ""
                if not as_json and pages:
                    terminal.print(f"dashboard: {pages[0]}", highlight=False, soft_wrap=True)
                if opens and pages:
                    webbrowser.open(pages[0])
                result = await self._play(config, stopped, terminal, quiet=as_json)
                ended.set()

            ended = asyncio.Event()
            await supervisor.run(play, ended)
        if result is None:
            return 1  # stopped before it began
        return self._sum_up(result, as_json=as_json)

    async def _play(self, config: Config, stopped: asyncio.Event, terminal: Console, *, quiet: bool) -> CheckResult:
        await until_led(config, self.fleet.brokers)
        async with operator_of(config, "demo") as operator:
            for topic in self.swarms.flight.topics:
                await operator.promise(topic, self.swarms.flight.promise, reason="drones must follow their leader")
        async with watched_records(config, self._moved):
            await self.swarms.take_off(config, WanControl(str(config.path.parent / WAN_SOCKET)))
            self.crew.start(self._ask(config), "promises")
            await self._watch(stopped, terminal, quiet=quiet)
            await self.swarms.rest()
            await asyncio.sleep(_SETTLE_S)
            self.history.finished(time.time())
            await self.swarms.land()
            await self.crew.close()
        return check(self.history, grace_s=_GRACE_S)

    # What happens

    def _crossed(self, swarm: int, zone: int) -> None:
        self.scene.crossings += 1
        self.scene.news.append(
            f"swarm {swarm} crosses to zone {zone + 1}, the one of {self.swarms.flight.brokers[zone]}"
        )

    def _told(self, _report: Gap | Discontinuity) -> None:
        self.scene.reports += 1

    def _moved(self, record: TopicRecord) -> None:
        self.history.moved(time.time(), record.topic, record.newest.epoch, record.phase)
        if record.phase is Phase.TOLD:
            self.scene.moves += 1
            self.scene.at[record.topic] = ", ".join(record.newest.brokers)
            self.scene.news.append(f"{record.topic} -> {', '.join(record.newest.brokers)}")

    async def _ask(self, config: Config) -> None:
        while True:
            with contextlib.suppress(LinkDown, LeaseLost):
                async with operator_of(config, "demo") as operator:
                    while True:
                        self.scene.saw((await operator.standings()).topics)
                        await asyncio.sleep(_LOOK_S)
            await asyncio.sleep(1.0)

    # The view

    async def _watch(self, stopped: asyncio.Event, terminal: Console, *, quiet: bool) -> None:
        scene = self.scene
        begun_s = time.monotonic()

        def step() -> float | None:
            scene.elapsed_s = time.monotonic() - begun_s
            for tally in scene.tallies.values():
                tally.mark(scene.elapsed_s)
            over = stopped.is_set() or (scene.seconds is not None and scene.elapsed_s >= scene.seconds)
            return None if over else scene.elapsed_s

        await watch(lambda: screen(scene), lambda: line(scene), step, terminal, quiet=quiet)

    def _sum_up(self, result: CheckResult, *, as_json: bool) -> int:
        scene = self.scene
        latencies = {topic: tally.percentiles_ms() for topic, tally in scene.tallies.items()}
        if as_json:
            facts = {"moves": scene.moves, "crossings": scene.crossings, "seconds": round(scene.elapsed_s, 1)}
            repaired = {"repaired_s": [round(each, 1) for each in scene.repaired_s]}
            found = {t: {"p50": f[0], "p99": f[1]} for t, f in latencies.items() if f}
            print_json({**facts, **repaired, **result.counts(), "latency_ms": found})
        else:
            print(
                f"{scene.crossings} swarms crossed zones, {scene.moves} moves in {scene.elapsed_s:.0f} s,"
                f" longest pause {result.longest_pause_s:.2f} s"
            )
            if scene.repaired_s:
                middle_s = sorted(scene.repaired_s)[len(scene.repaired_s) // 2]
                print(f"{len(scene.repaired_s)} broken promises kept again, after {middle_s:.0f} s in the middle")
            print(f"published {result.published} delivered {result.delivered} reordered {len(result.reordered)}")
            if result.gaps or result.discontinuities:
                told = f"{result.gaps} gaps and {result.discontinuities} discontinuities"
                print(f"reported: {told}, with {len(result.covered)} messages in them")
            print(f"lost {len(result.lost)} duplicated {len(result.duplicated)}")
        sys.stdout.flush()
        return int(not result.honest)
