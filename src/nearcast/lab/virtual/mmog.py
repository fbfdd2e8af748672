"""The game of groups over cities in virtual time."""

import asyncio
import random
from functools import partial

from nearcast.domain.slo import Slo
from nearcast.lab.experiment import Progress
from nearcast.lab.mmog import LOOP, PROMISE, SIZE_BYTES, Game, line_of, topic_of
from nearcast.lab.promised import Observed
from nearcast.lab.virtual.stage import Stage, loop_of
from nearcast.sim.deployment import SimClient
from nearcast.sim.loop import run_virtual

_WINDOW_S = 1.0


def play(game: Game, seed: int, progress: Progress) -> Observed:
    return run_virtual(_play(game, random.Random(seed), progress), seed=seed)


async def _play(game: Game, rng: random.Random, progress: Progress) -> Observed:
    stage = Stage(game.brokers, game.lines, _WINDOW_S, rng)
    promises = dict.fromkeys(game.topics, Slo.parse(PROMISE))
    await stage.set_up(game.between_s, partial(game.between_s, game.capital), loop_of(LOOP), promises)
    servers = [_start(stage, game, city) for city in range(len(game.cities))]
    stage.begin(game.run_s, progress)
    for player, city in enumerate(game.city_of):
        publish = stage.publish(servers[city].client, topic_of(player), game.rate_hz, SIZE_BYTES)
        stage.crew.start(publish, topic_of(player))
    for at_s, wanted in game.wishes():
        if at_s:
            await stage.until(at_s)
        for server, players in zip(servers, wanted, strict=True):
            server.want(players)
    return await stage.observed()


def _start(stage: Stage, game: Game, city: int) -> "_Server":
    name = f"server-{city}"
    stage.place(name, partial(game.way_s, city))
    server = _Server(stage, city, stage.fleet.start_client(name))
    stage.crew.start(server.follow(), name)
    return server


class _Server:
    """A city's game server, and which avatars it hears."""

    def __init__(self, stage: Stage, city: int, client: SimClient) -> None:
        self.client = client
        self._stage = stage
        self._city = city
        self._numbers: dict[int, int] = {}
        self._wanted: set[int] = set()
        self._news = asyncio.Event()

    def want(self, players: set[int]) -> None:
        self._wanted = players
        self._news.set()

    async def follow(self) -> None:
        """Hears the new ones before it leaves the old ones."""
        while True:
            await self._news.wait()
            self._news.clear()
            new = sorted(self._wanted - self._numbers.keys())
            await asyncio.gather(*(self._hear(player) for player in new))
            for player in sorted(self._numbers.keys() - self._wanted):
                self._stage.fleet.leave(self.client, self._numbers.pop(player))

    async def _hear(self, player: int) -> None:
        line = line_of(player, self._city)
        self._numbers[player] = await self._stage.listen(self.client, topic_of(player), line)
