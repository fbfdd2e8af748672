"""The tile game of the Dynamoth paper (section V): players walk about a square world that is cut into tiles.

A player picks a random point, walks there in a straight line, rests, and picks the next. It subscribes to the tile that
it stands on and publishes its state on it, so that everybody on a tile hears everybody else there, and itself.

`Game` is stepped by whoever drives it, and says at each step who joined, who left and who came to another tile: the
flow model asks it once a second; a driver with real clients lets them subscribe, unsubscribe and publish accordingly.

The paper gives the number of players, their updates per second and that a rest is short. The other figures are
defaults of the authors' published game: a world of 200 by 200 units in tiles of 25 (so 8 by 8), one unit a second, a
rest of 2 s; for hot spots nine circles of radius 10 on a 3 by 3 grid, and eight of ten players at one stay for another
walk.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nearcast.lab.workloads.latency import FittedRtt, Rtt
from nearcast.lab.workloads.popularity import weights_for
from nearcast.lab.workloads.schedule import Schedule
from nearcast.sim.flow_load import Crowd

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class World:
    """The map and how players use it.

    `hot_share` of the walks go to a hot spot: one of `hot_across` x `hot_across`, evenly spaced. `popularity` are
    weights of any number of real topics: then a walk that goes to no hot spot goes to a random point of a tile that is
    chosen with one of these weights, instead of a random point of the map.
    """

    side: float = 200.0
    across: int = 8
    speed_per_s: float = 1.0
    rest_s: float = 2.0
    updates_hz: float = 3.0
    hot_share: float = 0.0
    hot_across: int = 3
    hot_radius: float = 10.0
    hot_stay: float = 0.8
    popularity: tuple[float, ...] = ()

    @property
    def tiles(self) -> int:
        """How many tiles, which is how many topics."""
        return self.across * self.across


@dataclass(frozen=True, slots=True)
class Step:
    """What happened between two steps, by player number, ascending. Who joined or left did not also cross."""

    at_s: float
    joined: Ints
    left: Ints
    crossed: Ints


@dataclass(slots=True)
class Game:
    """One run of the game. Equal arguments and equal step times give equal players, whatever is done with them.

    Players are numbered from 0; `tile` is -1 for those who are not there. The arrays are the game's own: read them
    between steps, and do not write.
    """

    world: World
    schedule: Schedule
    seed: int
    rtt: Rtt = field(default_factory=FittedRtt)
    topics: tuple[str, ...] = field(init=False)
    tile: Ints = field(init=False)
    key: NDArray[np.int64] = field(init=False)
    rtt_ms: Floats = field(init=False)
    _rng: np.random.Generator = field(init=False, repr=False)
    _now_s: float = field(init=False, default=0.0)
    _at: Floats = field(init=False, repr=False)
    _target: Floats = field(init=False, repr=False)
    _hot: Ints = field(init=False, repr=False)
    _walks_at_s: Floats = field(init=False, repr=False)
    _weights: Floats | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        world, most = self.world, self.schedule.most
        self._rng = np.random.default_rng(self.seed)
        # The seed is in the names: another seed is another game, which a hash ring places anew.
        self.topics = tuple(f"game{self.seed}.tile.{x}.{y}" for x in range(world.across) for y in range(world.across))
        self.tile = np.full(most, _NOWHERE, dtype=np.intp)
        self.key = self._rng.integers(0, 2**62, most)
        self.rtt_ms = self.rtt.sample(self._rng, most)
        self._at = np.zeros((most, 2))
        self._target = np.zeros((most, 2))
        self._hot = np.full(most, _NOWHERE, dtype=np.intp)
        self._walks_at_s = np.zeros(most)
        if world.popularity:
            self._weights = weights_for(np.asarray(world.popularity), world.tiles, self._rng)

    @property
    def online(self) -> Ints:
        """The numbers of the players who are there, ascending."""
        return np.flatnonzero(self.tile != _NOWHERE)

    def crowd(self) -> Crowd:
        """Who is there now, for the flow model: every player publishes and listens on its tile."""
        there = self.online
        return Crowd(
            topic=self.tile[there],
            key=self.key[there],
            rate_hz=np.full(len(there), self.world.updates_hz),
            listens=np.ones(len(there), dtype=np.bool_),
            rtt_ms=self.rtt_ms[there],
        )

    def step(self, now_s: float) -> Step:
        """Let time pass until `now_s`, which must not be earlier than the last step."""
        if now_s < self._now_s:
            raise ValueError(f"a step to {now_s} s after one to {self._now_s} s: time does not go back")
        passed_s, self._now_s = now_s - self._now_s, now_s
        before = self.tile.copy()
        self._walk(self.online, passed_s, now_s)
        left = self._leave()
        joined = self._join(now_s)
        there = self.online
        self.tile[there] = self._tile_of(self._at[there])
        crossed = np.flatnonzero((before != self.tile) & (before != _NOWHERE) & (self.tile != _NOWHERE))
        return Step(now_s, joined, left, crossed)

    def _walk(self, players: Ints, passed_s: float, now_s: float) -> None:
        walkers = players[self._walks_at_s[players] <= now_s]
        way = self._target[walkers] - self._at[walkers]
        distance = np.hypot(way[:, 0], way[:, 1])
        reach = self.world.speed_per_s * np.minimum(passed_s, now_s - self._walks_at_s[walkers])
        arrives = distance <= reach
        share = np.where(arrives, 1.0, reach / np.where(distance > 0.0, distance, 1.0))
        self._at[walkers] += way * share[:, None]
        arrived = walkers[arrives]
        self._walks_at_s[arrived] = now_s + self.world.rest_s
        self._choose_target(arrived)

    def _leave(self) -> Ints:
        there = self.online
        too_many = max(0, len(there) - self.schedule.players(self._now_s))
        left = np.sort(self._rng.choice(there, too_many, replace=False)) if too_many else there[:0]
        self.tile[left] = _NOWHERE
        return left

    def _join(self, now_s: float) -> Ints:
        wanted = self.schedule.players(self._now_s) - len(self.online)
        joined = np.flatnonzero(self.tile == _NOWHERE)[: max(0, wanted)]
        self._at[joined] = self._anywhere(len(joined))
        self._hot[joined] = _NOWHERE
        self._walks_at_s[joined] = now_s
        self._choose_target(joined)
        self.tile[joined] = self._tile_of(self._at[joined])
        return joined

    def _choose_target(self, players: Ints) -> None:
        world, rng, count = self.world, self._rng, len(players)
        self._target[players] = self._anywhere(count)
        if world.hot_share <= 0.0:
            return
        stays = (self._hot[players] != _NOWHERE) & (rng.random(count) < world.hot_stay)
        chosen = np.where(rng.random(count) < world.hot_share, rng.integers(0, world.hot_across**2, count), _NOWHERE)
        hot = np.where(stays, self._hot[players], chosen)
        self._hot[players] = hot
        angle = rng.random(count) * 2.0 * np.pi
        spacing = world.side / (world.hot_across + 1)
        centre = np.stack((hot // world.hot_across + 1, hot % world.hot_across + 1), axis=1) * spacing
        rim = centre + world.hot_radius * np.stack((np.cos(angle), np.sin(angle)), axis=1)
        goes = hot != _NOWHERE
        self._target[players[goes]] = rim[goes]

    def _anywhere(self, count: int) -> Floats:
        if self._weights is None:
            return self._rng.random((count, 2)) * self.world.side
        tile = self._rng.choice(self.world.tiles, count, p=self._weights)
        corner = np.stack((tile // self.world.across, tile % self.world.across), axis=1)
        return np.asarray((corner + self._rng.random((count, 2))) * (self.world.side / self.world.across))

    def _tile_of(self, at: Floats) -> Ints:
        cells = np.clip((at * (self.world.across / self.world.side)).astype(np.intp), 0, self.world.across - 1)
        return cells[:, 0] * self.world.across + cells[:, 1]
