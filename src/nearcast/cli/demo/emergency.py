"""`nearcast demo emergency`."""

import asyncio
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from nearcast.cli.connect import operator_of
from nearcast.cli.demo.emergency_show import EmergencyScene, line, screen
from nearcast.cli.demo.watch import watch
from nearcast.cli.output import print_json
from nearcast.domain.channel import Notification
from nearcast.domain.errors import LeaseLost, LinkDown
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.emergency import channel_name, user_name
from nearcast.lab.live.emergency import EmergencyFleet, EmergencySpec, emergency_fleet
from nearcast.lab.live.residents import Event, Got, Lost, Resident, Stay
from nearcast.lab.workloads.emergencies import Size
from nearcast.transport.config import Config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped

_COMPRESS = 3.0
_REPORTS_PER_S = 6.0  # of the city's seconds, as in the paper
_LOGIN_S, _SUBSCRIBE_S = 5.0, 15.0  # of ours
_LOOK_S = 1.0
_PATIENCE_S = 5.0


def show_emergency(
    seconds: Annotated[float, typer.Option(min=30, help="How long it runs.")] = 90.0,
    subscribers: Annotated[int, typer.Option(min=1, max=400, help="People in the city.")] = 80,
    brokers: Annotated[Literal["nats", "redis"], typer.Option(help="The kind of servers.")] = "nats",
    seed: Annotated[int, typer.Option(min=0, help="Another one, another city.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing before.")] = False,
) -> None:
    """Show people of a city being told of emergencies near them, with the shelters that they can reach.

    Five real servers, a real pipeline on Spark and real subscribers, on this machine. All come to the broker that is
    nearest to them, and loads are evened out meanwhile. Exit code 1 when somebody was told that something is missing.
    """
    whole_s = seconds * _COMPRESS
    size = Size(subscribers, int(_REPORTS_PER_S * whole_s), _LOGIN_S * _COMPRESS, _SUBSCRIBE_S * _COMPRESS, whole_s)
    demo = _Demo(EmergencySpec(Stay(seed, size, _COMPRESS, away=0.0), brokers), seconds)
    raise typer.Exit(run_until_stopped(lambda stopped: demo.run(stopped, as_json=as_json)))


class _Demo:
    def __init__(self, spec: EmergencySpec, seconds: float) -> None:
        self.spec = spec
        self.scene = EmergencyScene(seconds, spec.stay.size.subscribers)
        self.crew = Crew()

    async def run(self, stopped: asyncio.Event, *, as_json: bool) -> int:
        terminal = Console(stderr=as_json)
        if not as_json:
            terminal.print("starting five servers, their agents and coordinators, and a pipeline on Spark ...")
        with tempfile.TemporaryDirectory(prefix="nearcast-demo-") as folder:
            ended = asyncio.Event()

            async def play(supervisor: Supervisor) -> None:
                async with emergency_fleet(supervisor, self.spec) as fleet:
                    await self._play(fleet, stopped, terminal, quiet=as_json)
                ended.set()

            await Supervisor(Path(folder), say=self.scene.news.append).run(play, ended)
        return self._sum_up(as_json=as_json)

    async def _play(self, fleet: EmergencyFleet, stopped: asyncio.Event, terminal: Console, *, quiet: bool) -> None:
        begin_s, stay = time.time(), self.spec.stay
        for number in range(stay.size.subscribers):
            resident = Resident(number, fleet.city, fleet.config, stay, self._heard, also=self._told)
            self.crew.start(resident.live(begin_s), f"resident {number}")
        self.crew.start(fleet.walk(begin_s), "walks")
        self.crew.start(fleet.report(begin_s, self._reported), "reports")
        self.crew.start(self._ask(fleet.config), "homes")
        try:
            await self._watch(begin_s, stopped, terminal, quiet=quiet)
        finally:
            await self.crew.close()

    # What happens

    def _reported(self, done: int, total: int, doing: str) -> None:  # noqa: ARG002  # as a Progress is called
        self.scene.reports = done

    def _heard(self, event: Event) -> None:
        if isinstance(event, Got):
            self.scene.notifications += 1
            self.scene.rows += len(event.told)
        elif isinstance(event, Lost):
            self.scene.missed += 1
        else:
            self.scene.subscriptions += 1

    def _told(self, user: int, channel: int, notification: Notification) -> None:
        row, others = notification.rows[0], len(notification.rows) - 1
        shelters = row.get("shelters")
        near = f"; shelters: {', '.join(map(str, shelters[:5])) or 'none'}" if isinstance(shelters, list) else ""
        more = f" and {others} more" if others else ""
        told = f"{row['kind']} (report {row['id']}){more}{near}"
        self.scene.news.append(f"{user_name(user)}, {channel_name(channel)}: {told}")

    async def _ask(self, config: Config) -> None:
        while True:
            with suppress(LinkDown, LeaseLost, TimeoutError):
                async with asyncio.timeout(_PATIENCE_S), operator_of(config) as operator:
                    self.scene.saw(await operator.homes())
            await asyncio.sleep(_LOOK_S)

    # The view

    async def _watch(self, begin_s: float, stopped: asyncio.Event, terminal: Console, *, quiet: bool) -> None:
        scene = self.scene

        def step() -> float | None:
            scene.elapsed_s = time.time() - begin_s
            return None if stopped.is_set() or scene.elapsed_s >= scene.seconds else scene.elapsed_s

        await watch(lambda: screen(scene), lambda: line(scene), step, terminal, quiet=quiet)

    def _sum_up(self, *, as_json: bool) -> int:
        scene = self.scene
        if as_json:
            print_json({"seconds": round(scene.elapsed_s, 1), **scene.facts(), "first_cov": scene.first_cov})
        else:
            print(f"{scene.reports} reports, {scene.notifications} notifications with {scene.rows} rows")
            if scene.first_cov is not None and scene.homes is not None:
                print(f"loads of brokers: cov {scene.first_cov:.2f} at first, {scene.homes.cov:.2f} in the end")
            print(f"missed {scene.missed}")
        sys.stdout.flush()
        return int(scene.missed > 0)
