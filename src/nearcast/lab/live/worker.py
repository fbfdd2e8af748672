"""Clients on real servers, many in one process, that write a journal of all they do and get.

    python -m nearcast.lab.live.worker SPEC.json

Prints one JSON line when every client is subscribed. On SIGUSR1 nothing more is published; on SIGTERM it ends.
"""

import asyncio
import random
import signal
import sys
import time
from pathlib import Path

import msgspec

from nearcast.client import Client, open_client
from nearcast.lab.live.journal import Journal
from nearcast.sim.recorder import Recorder
from nearcast.transport.config import load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped, say_ready, wait_until


class ClientSpec(msgspec.Struct, frozen=True):
    """One client. `rate` is in messages per second, over all of its topics; they come in bursts of `burst`."""

    name: str
    subscribe: tuple[str, ...] = ()
    publish: tuple[str, ...] = ()
    rate: float = 0.0
    burst: int = 1
    size: int = 100
    site: str = ""


class WorkerSpec(msgspec.Struct, frozen=True):
    """`first` numbers this worker's subscriptions apart from those of others."""

    config: str
    journal: str
    first: int
    seed: int
    clients: tuple[ClientSpec, ...]


class Worker:
    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._config = load_config(Path(spec.config))
        self._journal = Journal(Path(spec.journal))
        self._recorder = Recorder(self._journal, time.time, first=spec.first)
        self._crew = Crew()
        self._numbers: list[int] = []
        self._clients: list[Client] = []
        self._quiet = asyncio.Event()

    async def run(self, stopped: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._quiet.set)
        for spec in self._spec.clients:
            client = open_client(self._config, name=spec.name, site=spec.site)
            self._clients.append(client)
            for topic in spec.subscribe:
                self._crew.start(self._subscribe(client, topic), f"{spec.name} subscribes to {topic}")
        wanted = sum(len(spec.subscribe) for spec in self._spec.clients)
        await wait_until(lambda: len(self._numbers) == wanted, stopped)
        for number, (spec, client) in enumerate(zip(self._spec.clients, self._clients, strict=True)):
            if spec.publish:
                rng = random.Random(self._spec.seed * 1_000_003 + number)
                self._crew.start(self._publish(spec, client, rng), f"{spec.name} publishes")
        say_ready(subscriptions=wanted)
        await stopped.wait()
        self._quiet.set()
        for number in self._numbers:
            self._journal.unsubscribe_begun(time.time(), number)
        await asyncio.gather(*(client.close() for client in self._clients))
        for number in self._numbers:
            self._journal.unsubscribe_closed(time.time(), number)
        await self._crew.close()
        self._journal.close()

    async def _subscribe(self, client: Client, topic: str) -> None:
        made = await self._recorder.subscribe(client, topic)
        if made is not None:
            self._numbers.append(made[0])

    async def _publish(self, spec: ClientSpec, client: Client, rng: random.Random) -> None:
        """By a schedule of its own, so that a pause is made up for afterwards and not left out."""
        due_s = time.monotonic()
        while not self._quiet.is_set():
            due_s += rng.expovariate(spec.rate / spec.burst)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            topic = rng.choice(spec.publish)
            for _ in range(spec.burst):
                if self._quiet.is_set():
                    return
                await self._recorder.publish(client, topic, rng.randbytes(spec.size))


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=WorkerSpec)

    run_until_stopped(lambda stopped: Worker(spec).run(stopped))


if __name__ == "__main__":
    main()
