"""`nearcast demo`."""

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from nearcast.cli.connect import operator_of
from nearcast.cli.demo.show import Scene, line, screen
from nearcast.cli.demo.tally import TopicTally
from nearcast.cli.demo.watch import watch
from nearcast.cli.output import print_json
from nearcast.client import Client, open_client
from nearcast.coordinator import Operator
from nearcast.domain.errors import LeaseLost, LinkDown, MoveRefused
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.route import Route, Strategy
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.sim.check import CheckResult, check
from nearcast.sim.history import History
from nearcast.sim.recorder import Recorder
from nearcast.transport.config import Config, load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped

TOPICS = ("drones", "vehicles", "sensors", "alerts")
_RATE = 15.0
_MOVE_EVERY_S = 3.0
_SETTLE_S = 4.0
_GRACE_S = 5.0


def show_demo(
    context: typer.Context,
    *,
    seconds: Annotated[float, typer.Option(min=5, help="How long it runs.")] = 60.0,
    forever: Annotated[bool, typer.Option("--forever", help="Run until Ctrl-C.")] = False,
    brokers: Annotated[Literal["nats", "redis"], typer.Option(help="The kind of servers.")] = "nats",
    delay_ms: Annotated[float, typer.Option("--delay", min=0, max=500, help="One-way ms between two sites.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Chooses what moves where.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing before.")] = False,
) -> None:
    """Start three real servers on emulated sites, and move topics between them while messages flow.

    Shows rates, latencies and what is lost or repeated, and ends with the verdict of the history checker. Exit code 1
    when a message was lost without a report, repeated or out of order.
    """
    if context.invoked_subcommand is not None:
        return
    demo = _Demo(LocalSpec(kind=brokers, near_s=0.0005, hop_s=delay_ms / 1e3), None if forever else seconds, seed)
    raise typer.Exit(run_until_stopped(lambda stopped: demo.run(stopped, as_json=as_json)))


class _Demo:
    def __init__(self, spec: LocalSpec, seconds: float | None, seed: int) -> None:
        self.spec = spec
        self.rng = random.Random(seed)
        self.history = History()
        self.recorder = Recorder(self.history, time.time)
        sites = {broker: spec.site(number) for number, broker in enumerate(spec.brokers)}
        tallies = {topic: TopicTally() for topic in TOPICS}
        self.scene = Scene(sites, spec.kind, spec.hop_s * 1e3, tallies, dict.fromkeys(TOPICS), seconds)
        self.crew = Crew()
        self.clients: list[Client] = []
        self.publishing = True

    async def run(self, stopped: asyncio.Event, *, as_json: bool) -> int:
        terminal = Console(stderr=as_json)
        with tempfile.TemporaryDirectory(prefix="nearcast-demo-") as folder:
            supervisor = Supervisor(Path(folder), say=self.scene.news.append)
            if not as_json:
                terminal.print(
                    f"starting {self.spec.sites} {self.spec.kind} servers, their agents and coordinators ..."
                )
            result: CheckResult | None = None

            async def play(supervisor: Supervisor) -> None:
                nonlocal result
                config = load_config(await launch(supervisor, self.spec))
                result = await self._play(config, stopped, terminal, quiet=as_json)
                ended.set()

            ended = asyncio.Event()
            await supervisor.run(play, ended)
        if result is None:
            return 1  # stopped before it began
        return self._sum_up(result, as_json=as_json)

    async def _play(self, config: Config, stopped: asyncio.Event, terminal: Console, *, quiet: bool) -> CheckResult:
        await self._start_clients(config)
        self.crew.start(self._move_on(config), "moves")
        await self._watch(stopped, terminal, quiet=quiet)
        self.publishing = False
        await asyncio.sleep(_SETTLE_S)
        self.history.finished(time.time())
        await asyncio.gather(*(client.close() for client in self.clients))
        await self.crew.close()
        return check(self.history, grace_s=_GRACE_S)

    # Clients

    async def _start_clients(self, config: Config) -> None:
        """At every site: a subscriber of each topic, and a publisher on two of them."""
        subscribed = []
        for number in range(self.spec.sites):
            site = self.spec.site(number)
            listener, sender = (
                open_client(config, name=f"{role}-{site}", site=site) for role in ("listener", "sender")
            )
            self.clients += [listener, sender]
            subscribed += [self._listen(listener, topic) for topic in TOPICS]
            mine = [TOPICS[(number + offset) % len(TOPICS)] for offset in range(2)]
            self.crew.start(self._send(sender, mine), f"publisher at {site}")
        await asyncio.gather(*subscribed)

    async def _listen(self, client: Client, topic: str) -> None:
        tally = self.scene.tallies[topic]

        def took(number: int, message: Message) -> None:
            late_ms = (client.time_ns() - message.sent_ns) / 1e6
            tally.took(number, message.publisher, message.seq, late_ms)

        def told(_report: Gap | Discontinuity) -> None:
            self.scene.reports += 1

        await self.recorder.subscribe(client, topic, also=took, also_report=told)

    async def _send(self, client: Client, topics: list[str]) -> None:
        rng = random.Random(self.rng.getrandbits(64))
        while self.publishing:
            await asyncio.sleep(rng.expovariate(_RATE))
            topic = rng.choice(topics)
            await self.recorder.publish(client, topic, rng.randbytes(200))
            self.scene.tallies[topic].published += 1

    # Moves

    async def _move_on(self, config: Config) -> None:
        while True:
            try:
                async with operator_of(config) as operator:
                    while True:
                        await asyncio.sleep(_MOVE_EVERY_S)
                        await self._move(operator)
            except (LinkDown, LeaseLost):
                await asyncio.sleep(1.0)

    async def _move(self, operator: Operator) -> None:
        topic = self.rng.choice(TOPICS)
        strategy = self.rng.choice((Strategy.SINGLE, Strategy.SINGLE, *Strategy))
        size = 1 if strategy is Strategy.SINGLE else 2
        brokers = tuple(sorted(self.rng.sample(self.spec.brokers, size)))
        begun_s = time.monotonic()
        try:
            epoch = await operator.move(topic, strategy, brokers)
        except MoveRefused as refusal:
            self.scene.news.append(f"{topic}: {refusal}")
            return
        self.scene.moves += 1
        self.scene.routes[topic] = Route(epoch, strategy, brokers)
        took_ms = (time.monotonic() - begun_s) * 1e3
        self.scene.news.append(f"{topic} -> {strategy} on {', '.join(brokers)} (all agents ready in {took_ms:.0f} ms)")

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
        latencies = {topic: tally.percentiles_ms() for topic, tally in self.scene.tallies.items()}
        if as_json:
            summary = {"moves": self.scene.moves, "seconds": round(self.scene.elapsed_s, 1), **result.counts()}
            print_json(summary | {"latency_ms": {t: {"p50": f[0], "p99": f[1]} for t, f in latencies.items() if f}})
        else:
            seconds, pause_s = self.scene.elapsed_s, result.longest_pause_s
            print(f"{self.scene.moves} moves in {seconds:.0f} s, longest pause {pause_s:.2f} s")
            print(f"published {result.published} delivered {result.delivered} reordered {len(result.reordered)}")
            if result.gaps or result.discontinuities:
                told = f"{result.gaps} gaps and {result.discontinuities} discontinuities"
                print(f"reported: {told}, with {len(result.covered)} messages in them")
            print(f"lost {len(result.lost)} duplicated {len(result.duplicated)}")
        sys.stdout.flush()
        return int(not result.honest)
