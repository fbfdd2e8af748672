"""How often a marker overtakes the message before it, on a real server: what the linger of rule 3 is for.

Some connections publish messages. Another, in a process of its own as an agent is, answers each with a marker on the
same topic as soon as it has it. Whoever gets the marker before the message would leave too early without a linger.

    python -m nearcast.lab.live.overtaking URL
"""

import asyncio
import struct
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nearcast.brokers.connect import connector
from nearcast.brokers.link import Link
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.lab.experiment import Progress
from nearcast.transport.endpoint import Endpoint
from nearcast.transport.process import run_until_stopped, say_ready

_TOPIC = "hot"
_MESSAGE, _MARKER = b"m", b"k"
_NUMBER = struct.Struct("<cI")
_ANSWER_S = 30.0
_BURST = 16  # messages in a row: the server is still handing on the first ones when the marker comes
_SENDERS = 8
_SIZE_BYTES = 1000
_AT_ONCE = 50  # connections that are opened at a time


@dataclass(slots=True)
class Overtaking:
    """Of `trials` bursts to `fanout` subscribers; `late_s`: how long after its marker each overtaken message came."""

    fanout: int
    trials: int
    overtaken: int = 0  # trials in which it happened to anybody
    late_s: list[float] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """That were to be received, by all together."""
        return self.fanout * self.trials * _BURST


def measure(kind: str, fanout: int, trials: int, pause_s: float, progress: Progress) -> Overtaking:
    """Raises TimeoutError when a message does not come back at all."""
    return asyncio.run(_measure(kind, fanout, trials, pause_s, progress))


async def _measure(kind: str, fanout: int, trials: int, pause_s: float, progress: Progress) -> Overtaking:
    found = Overtaking(fanout, trials)
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder:
        state = Path(folder)
        server = await Server.start(ServerSpec(kind, "server"), state)
        argv = (sys.executable, "-m", "nearcast.lab.live.overtaking", server.endpoint.url)
        try:
            audience = _Audience(fanout)
            await audience.attach(server.endpoint, range(fanout // 2))
            marker = await Command.start(CommandSpec("marker", "marker", argv), state)  # after some, before others
            try:
                await audience.attach(server.endpoint, range(fanout // 2, fanout))
                await audience.open_senders(server.endpoint)
                for number in range(trials):
                    await _try(audience, number, found)
                    progress(number + 1, trials, f"bursts to {fanout} subscribers")
                    await asyncio.sleep(pause_s)
            finally:
                await audience.leave()
                await marker.stop()
        finally:
            await server.kill()
    return found


async def _try(audience: "_Audience", number: int, found: Overtaking) -> None:
    audience.begin(number)
    async with asyncio.timeout(_ANSWER_S):
        await audience.complete.wait()
    found.overtaken += bool(audience.late_s)
    found.late_s += audience.late_s


class _Audience:
    """Many connections to one server, each of which gets the message and the marker of a trial in some order."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._links: list[Link] = []
        self._senders: list[Link] = []
        self.complete = asyncio.Event()
        self.late_s: list[float] = []

    async def attach(self, endpoint: Endpoint, listeners: range) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> None:
            async with gate:
                connect = connector(lambda _broker: endpoint, name=f"listener{number}")
                link = await connect("server", lambda _up: None)
                self._links.append(link)
                await link.subscribe(_TOPIC, partial(self.receive, number))

        await asyncio.gather(*(one(number) for number in listeners))

    async def open_senders(self, endpoint: Endpoint) -> None:
        for number in range(_SENDERS):
            connect = connector(lambda _broker: endpoint, name=f"sender{number}")
            self._senders.append(await connect("server", lambda _up: None))

    def begin(self, number: int) -> None:
        self.expect(number)
        for each in range(_BURST):
            message = _NUMBER.pack(_MESSAGE, self._first + each) + bytes(_SIZE_BYTES)
            self._senders[each % _SENDERS].publish(_TOPIC, message)

    def expect(self, number: int) -> None:
        self._first = number * _BURST
        self._seen: set[tuple[int, int]] = set()  # (listener, message): who has which
        self._marked: dict[tuple[int, int], float] = {}  # and the marker behind it, since when
        self.late_s = []
        self.complete.clear()

    def receive(self, listener: int, data: bytes) -> None:
        kind, number = _NUMBER.unpack_from(data)
        if number < self._first:
            return
        if kind == _MESSAGE:
            self._seen.add((listener, number))
            if (listener, number) in self._marked:
                self.late_s.append(time.monotonic() - self._marked[listener, number])
        else:
            self._marked[listener, number] = time.monotonic()
        if len(self._seen) == len(self._marked) == self._size * _BURST:
            self.complete.set()

    async def leave(self) -> None:
        await asyncio.gather(*(link.close() for link in (*self._links, *self._senders)))


async def _mark(endpoint: Endpoint, stopped: asyncio.Event) -> None:
    link = await connector(lambda _broker: endpoint, name="marker")("server", lambda _up: None)

    def receive(data: bytes) -> None:
        kind, number = _NUMBER.unpack_from(data)
        if kind == _MESSAGE:
            link.publish(_TOPIC, _NUMBER.pack(_MARKER, number))

    await link.subscribe(_TOPIC, receive)
    say_ready()
    await stopped.wait()
    await link.close()


def main() -> None:
    endpoint = Endpoint.parse(sys.argv[1])
    run_until_stopped(partial(_mark, endpoint))


if __name__ == "__main__":
    main()
