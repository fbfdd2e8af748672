"""Players of the tile game as real clients, in one process: each subscribes to its tile and publishes its state there.

    python -m nearcast.lab.live.players SPEC.json

Several processes share a game: each plays the whole of it, and has every n-th player as a client of its own. Prints one
JSON line when the first players are there; the game's time begins with SIGUSR1. Every second a line of what players
saw in it is appended to the file that the spec names, until SIGTERM.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path

import msgspec

from nearcast.client import Client, Subscription, open_client
from nearcast.domain.errors import NearcastError
from nearcast.domain.message import Message
from nearcast.lab.workloads.schedule import Schedule
from nearcast.lab.workloads.tiles import Game, World
from nearcast.transport.config import Config, load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped, say_ready

_STEP_S = 0.25
_NUMBER_BYTES = 4


class PlayersSpec(msgspec.Struct, frozen=True):
    """This process has the players whose number is `part` modulo `parts`. `size` is of a whole message."""

    config: str
    seen: str
    site: str
    world: World
    schedule: Schedule
    seed: int
    part: int
    parts: int
    size: int


class SecondSeen(msgspec.Struct, frozen=True):
    """`responses`: of how many messages players heard their own copy, `response_s` the sum of how long that took."""

    at_s: int
    players: int
    published: int
    delivered: int
    responses: int
    response_s: float
    reports: int


class Player:
    """One client: on one tile at a time, where it publishes what it does and hears everybody, itself too."""

    def __init__(self, number: int, client: Client, seen: "Seen", payload: bytes, every_s: float) -> None:
        self.number = number
        self._mark = number.to_bytes(_NUMBER_BYTES, "little")
        self._client = client
        self._seen = seen
        self._payload = self._mark + payload
        self._every_s = every_s
        self._topic = ""
        self._here: Subscription | None = None

    async def play(self, topics: "asyncio.Queue[str]") -> None:
        """Goes from one tile of the queue to the next; begins to publish on the first."""
        await self._go(await topics.get())
        due_s = time.monotonic() + self._every_s * (self.number % 97) / 97
        while True:
            while not topics.empty():
                await self._go(topics.get_nowait())
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            due_s += self._every_s
            try:
                await self._client.publish(self._topic, self._payload)
                self._seen.published += 1
            except NearcastError:  # the servers are too slow even to say where to: that is seen, and the game goes on
                self._seen.reports += 1

    async def _go(self, topic: str) -> None:
        """Hears the new tile before it leaves the old one."""
        if topic == self._topic:
            return
        left, self._topic = self._here, topic
        self._here = await self._client.subscribe(topic, self._heard, on_report=self._seen.reported)
        if left is not None:
            left.close()

    def _heard(self, message: Message) -> None:
        seen = self._seen
        seen.delivered += 1
        if message.payload.startswith(self._mark):
            seen.responses += 1
            seen.response_s += (self._client.time_ns() - message.sent_ns) / 1e9


class Seen:
    """What all players of the process saw since the last line."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.published = self.delivered = self.responses = self.reports = 0
        self.response_s = 0.0

    def reported(self, _report: object) -> None:
        self.reports += 1

    def line(self, at_s: int, players: int) -> bytes:
        second = SecondSeen(
            at_s, players, self.published, self.delivered, self.responses, round(self.response_s, 6), self.reports
        )
        self.clear()
        return msgspec.json.encode(second) + b"\n"


class Players:
    def __init__(self, spec: PlayersSpec) -> None:
        self._spec = spec
        self._game = Game(spec.world, spec.schedule, spec.seed)
        self._seen = Seen()
        self._crew = Crew()
        self._begun = asyncio.Event()
        self._clients: dict[int, Client] = {}
        self._ways: dict[int, asyncio.Queue[str]] = {}

    async def run(self, stopped: asyncio.Event) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._begun.set)
        config = load_config(Path(self._spec.config))
        self._step(0.0, config)
        self._crew.start(self._walk(config), "game")
        say_ready()
        await stopped.wait()
        await self._crew.close()
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    async def _walk(self, config: Config) -> None:
        await self._begun.wait()
        begun_s, written_s = time.monotonic(), 0
        with Path(self._spec.seen).open("wb", buffering=0) as file:  # noqa: ASYNC230  # a line a second
            for number in range(1, int(self._spec.schedule.end_s / _STEP_S) + 1):
                now_s = number * _STEP_S
                await asyncio.sleep(max(0.0, begun_s + now_s - time.monotonic()))
                self._step(now_s, config)
                if now_s >= written_s + 1:
                    written_s += 1
                    file.write(self._seen.line(written_s, len(self._ways)))

    def _step(self, now_s: float, config: Config) -> None:
        spec, game = self._spec, self._game
        step = game.step(now_s)
        for player in [*step.joined.tolist(), *step.crossed.tolist()]:
            if player % spec.parts == spec.part:
                (self._ways.get(player) or self._join(player, config)).put_nowait(game.topics[game.tile[player]])

    def _join(self, number: int, config: Config) -> "asyncio.Queue[str]":
        spec = self._spec
        client = open_client(config, name=f"player{number}", site=spec.site)
        size = max(0, spec.size - _NUMBER_BYTES)
        player = Player(number, client, self._seen, bytes(size), 1 / spec.world.updates_hz)
        self._clients[number] = client
        self._ways[number] = asyncio.Queue()
        self._crew.start(player.play(self._ways[number]), f"player {number}")
        return self._ways[number]


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=PlayersSpec)
    run_until_stopped(lambda stopped: Players(spec).run(stopped))


if __name__ == "__main__":
    main()
