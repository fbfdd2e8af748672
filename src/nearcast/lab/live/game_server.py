"""The game server of a city as a real client; see `actors`. It hears the avatars of its players' groups."""

import asyncio
import sys
from pathlib import Path

import msgspec

from nearcast.client import open_client
from nearcast.lab.live.actors import Actors, ActorsSpec
from nearcast.lab.mmog import SIZE_BYTES, Game, topic_of
from nearcast.transport.process import run_until_stopped


class GameServerSpec(ActorsSpec, frozen=True):
    game: Game
    city: int
    site: str


class GameServer(Actors):
    def __init__(self, spec: GameServerSpec) -> None:
        super().__init__(spec, spec.game.run_s)
        self._game = spec.game
        self._city = spec.city
        self._client = open_client(self.config, name=f"server-{spec.city}", site=spec.site)
        self.clients = [self._client]
        self._hears: dict[int, int] = {}  # by player: the number of the subscription

    async def prepare(self) -> None:
        _, wanted = next(self._game.wishes())
        await self._want(wanted[self._city])

    async def act(self) -> None:
        game = self._game
        for player in game.players_in(self._city):
            publish = self.publish(self._client, topic_of(player), game.rate_hz, SIZE_BYTES)
            self.crew.start(publish, f"{topic_of(player)} is published")
        for at_s, wanted in game.wishes():
            await self.until(at_s)
            await self._want(wanted[self._city])

    async def _want(self, players: set[int]) -> None:
        """Hears the new ones before it leaves the old ones."""
        await asyncio.gather(*(self._hear(player) for player in sorted(players - self._hears.keys())))
        for player in sorted(self._hears.keys() - players):
            self.leave(self._hears.pop(player))

    async def _hear(self, player: int) -> None:
        self._hears[player] = await self.listen(self._client, topic_of(player))


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=GameServerSpec)
    run_until_stopped(lambda stopped: GameServer(spec).run(stopped))


if __name__ == "__main__":
    main()
