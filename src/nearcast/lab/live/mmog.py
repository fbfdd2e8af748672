"""The game of groups on real servers: a broker and a game server in every city, the control plane in one of them."""

from functools import partial
from pathlib import Path

import msgspec

from nearcast.domain.slo import Slo
from nearcast.fleet.local import LocalSpec
from nearcast.lab.experiment import Progress
from nearcast.lab.live import game_server
from nearcast.lab.live.actors import ActorsSpec
from nearcast.lab.live.game_server import GameServerSpec
from nearcast.lab.live.stage import Scenario, perform
from nearcast.lab.mmog import LAN_S, LOOP, PROMISE, Game, line_in
from nearcast.lab.promised import Observed


def play(game: Game, kind: str, seed: int, progress: Progress) -> Observed:
    fleet = fleet_of(game, kind)
    parts = [partial(_part, game, fleet, city) for city in range(len(game.cities))]
    promises = dict.fromkeys(game.topics, Slo.parse(PROMISE))
    return perform(
        Scenario(fleet, promises, game_server.__name__, parts, game.run_s, game.lines, line_in), seed, progress
    )


def fleet_of(game: Game, kind: str) -> LocalSpec:
    """A site for every city's broker, and behind them one for every city's game server."""
    cities = range(len(game.cities))
    sites = tuple(tuple(LAN_S if one == other else game.between_s(one, other) for other in cities) for one in cities)
    servers = tuple(tuple(game.way_s(city, broker) for broker in cities) for city in cities)
    return LocalSpec(
        sites=len(cities),
        kind=kind,
        coordinators=1,
        delays_s=sites + servers,
        bus_s=tuple(max(LAN_S, game.between_s(city, game.capital)) for city in cities),
        rebalance=dict(LOOP),
    )


def _part(game: Game, fleet: LocalSpec, city: int, common: ActorsSpec, _folder: Path) -> GameServerSpec:
    site = fleet.site(len(game.cities) + city)
    return GameServerSpec(**msgspec.structs.asdict(common), game=game, city=city, site=site)
