"""Clients of a scenario on real servers, some in one process: they publish by a schedule and keep a journal.

A module with its own kind of actors is run as `python -m MODULE SPEC.json`. It prints one JSON line when all who listen
from the start do. On SIGUSR1 they begin to publish; the file that the spec names says when the scenario itself begins,
on the wall clock.
"""

import asyncio
import random
import signal
import time
from pathlib import Path

import msgspec

from nearcast.client import Client, Subscription
from nearcast.lab.live.journal import Journal
from nearcast.sim.recorder import Recorder
from nearcast.transport.config import Config, load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import say_ready


class ActorsSpec(msgspec.Struct, frozen=True):
    """`first` numbers this process's subscriptions apart from those of others."""

    config: str
    journal: str
    begin: str
    first: int
    seed: int


class Actors:
    """To be derived from: `prepare` makes `clients`, `act` is what they do."""

    def __init__(self, spec: ActorsSpec, run_s: float) -> None:
        self.config: Config = load_config(Path(spec.config))
        self.crew = Crew()
        self.clients: list[Client] = []
        self._spec = spec
        self._run_s = run_s
        self._journal = Journal(Path(spec.journal))
        self._recorder = Recorder(self._journal, time.time, first=spec.first)
        self._rng = random.Random(spec.seed * 1_000_003 + spec.first)
        self._subscriptions: dict[int, Subscription] = {}
        self._begun = asyncio.Event()
        self._begin_s = 0.0

    async def prepare(self) -> None:
        raise NotImplementedError

    async def act(self) -> None:
        raise NotImplementedError

    async def run(self, stopped: asyncio.Event) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._begun.set)
        await self.prepare()
        self.crew.start(self._when_begun(), "the scenario")
        say_ready(subscriptions=len(self._subscriptions))
        await stopped.wait()
        left = list(self._subscriptions)
        for number in left:
            self._journal.unsubscribe_begun(time.time(), number)
        await asyncio.gather(*(client.close() for client in self.clients))
        for number in left:
            self._journal.unsubscribe_closed(time.time(), number)
        await self.crew.close()
        self._journal.close()

    async def until(self, at_s: float) -> None:
        """A time of the scenario."""
        await asyncio.sleep(max(0.0, self._begin_s + at_s - time.time()))

    async def listen(self, client: Client, topic: str) -> int:
        """The number of the subscription."""
        made = await self._recorder.subscribe(client, topic)
        assert made is not None
        number, self._subscriptions[number] = made
        return number

    def leave(self, number: int) -> None:
        self._journal.unsubscribe_begun(time.time(), number)
        self._subscriptions.pop(number).close()
        self._journal.unsubscribe_closed(time.time(), number)

    async def publish(self, client: Client, topic: str, rate_hz: float, size_bytes: int) -> None:
        """Until the end, by a schedule: who is late makes up for it."""
        payload, due_s = bytes(size_bytes), time.time() + self._rng.random() / rate_hz
        while due_s < self._begin_s + self._run_s:
            await asyncio.sleep(max(0.0, due_s - time.time()))
            await self._recorder.publish(client, topic, payload)
            due_s += 1 / rate_hz

    async def _when_begun(self) -> None:
        await self._begun.wait()
        self._begin_s = float(Path(self._spec.begin).read_text())  # noqa: ASYNC240  # a few bytes, once
        await self.act()
