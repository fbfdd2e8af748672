"""A crowd of clients in one process that publish or listen on one topic, and what the listeners saw.

    python -m nearcast.lab.live.meter SPEC.json

Prints one JSON line when every client is ready. Publishers begin then. What listeners get from SIGUSR1 on, until
SIGTERM, is written to the file that the spec names.
"""

import asyncio
import random
import signal
import sys
import time
from pathlib import Path

import msgspec
import numpy as np

from nearcast.client import Client, open_client
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.transport.config import load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped, say_ready


class MeterSpec(msgspec.Struct, frozen=True):
    """`rate`: messages a second per publisher; 0 for a process that only listens, `count` the number of clients."""

    config: str
    seen: str
    name: str
    site: str
    topic: str
    count: int
    rate: float = 0.0
    size: int = 100
    seed: int = 0


class Seen(msgspec.Struct, frozen=True):
    """Times are from publish to delivery, of `delivered` messages. `reports`: how many gaps and discontinuities."""

    delivered: int = 0
    mean_s: float = 0.0
    p99_s: float = 0.0
    reports: int = 0
    published: int = 0


class Meter:
    def __init__(self, spec: MeterSpec) -> None:
        self._spec = spec
        self._late_ns: list[int] = []
        self._reports = 0
        self._published = 0
        self._counting = False
        self._crew = Crew()
        self._clients: list[Client] = []

    async def run(self, stopped: asyncio.Event) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._begin)
        spec, config = self._spec, load_config(Path(self._spec.config))
        clients = self._clients = [
            open_client(config, name=f"{spec.name}{number}", site=spec.site) for number in range(spec.count)
        ]
        if spec.rate:
            await asyncio.gather(*(client.publish(spec.topic, b"") for client in clients))  # each has its route now
            for number, client in enumerate(clients):
                rng = random.Random(spec.seed * 1_000_003 + number)
                self._crew.start(self._publish(client, rng), f"{client.name} publishes")
        else:
            await asyncio.gather(
                *(client.subscribe(spec.topic, self._received, on_report=self._reported) for client in clients)
            )
        say_ready()
        await stopped.wait()
        self._write()
        await self._crew.close()
        await asyncio.gather(*(client.close() for client in clients))

    def _begin(self) -> None:
        self._counting = True

    def _received(self, message: Message) -> None:
        if self._counting and message.payload:
            self._late_ns.append(self._clients[0].time_ns() - message.sent_ns)

    def _reported(self, _report: Gap | Discontinuity) -> None:
        self._reports += self._counting

    async def _publish(self, client: Client, rng: random.Random) -> None:
        """By a schedule: who is late makes up for it."""
        spec = self._spec
        payload = rng.randbytes(spec.size)
        due_s = time.monotonic() + rng.random() / spec.rate
        while True:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            due_s += 1 / spec.rate
            self._published += self._counting
            await client.publish(spec.topic, payload)

    def _write(self) -> None:
        whole = Path(f"{self._spec.seen}.part")
        whole.write_bytes(msgspec.json.encode(self._seen()))
        whole.rename(self._spec.seen)

    def _seen(self) -> Seen:
        if not self._late_ns:
            return Seen(reports=self._reports, published=self._published)
        late_s = np.array(self._late_ns) / 1e9
        p99_s = float(np.percentile(late_s, 99))
        return Seen(len(late_s), float(late_s.mean()), p99_s, self._reports, self._published)


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=MeterSpec)
    run_until_stopped(lambda stopped: Meter(spec).run(stopped))


if __name__ == "__main__":
    main()
