"""What the experiments of the Dynamoth paper's section V have in common: its servers, and a game played on them.

Where the figures come from. Players, updates a second, servers and the 150 ms are the paper's. It gives neither the
servers' bandwidth nor the size of a message, and only their quotient matters here. A line of 100 Mbit/s, as a lab
machine had, and messages of 1,400 bytes, which fill an Ethernet frame, put the point at which eight servers are full
near the 1,000 players at which the paper's were. This sets the scale of the axis of players for every policy alike; how
much of the ratio between two policies hangs on it is measured (`scale` in the result of `dynamoth.scalability`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments import dynamoth_published_hash
from nearcast.lab.workloads.latency import FittedRtt, Rtt, read_matrix
from nearcast.lab.workloads.popularity import read_weights
from nearcast.lab.workloads.schedule import Schedule
from nearcast.lab.workloads.tiles import Game, World
from nearcast.policies.registry import POLICIES, Policy
from nearcast.policies.settings import Settings
from nearcast.sim.flow import FlowSettings
from nearcast.sim.flow_load import Crowd
from nearcast.sim.flow_loop import FlowLoop, Planner, Second

Floats = NDArray[np.float64]

BOUND_MS = 150.0
SERVERS = tuple(f"server-{number}" for number in range(1, 9))
LINE_BYTES_PER_S = 100e6 / 8
MESSAGE_BYTES = 1400.0
FAILS_AT = 1.15  # the load ratio above which the paper's servers failed
FLEET = FlowSettings(MESSAGE_BYTES, LINE_BYTES_PER_S / FAILS_AT, line_ratio=FAILS_AT)

_POLICIES: dict[str, Policy] = {**POLICIES, dynamoth_published_hash.NAME: dynamoth_published_hash.published_hashing}

# A rebalancing shows in averages after this long. What it mends within the time until the next one may begin and has
# shown is a spike; what lasts longer is not carried.
AVERAGE_S = 10
SPIKE_S = 30


@dataclass(frozen=True, slots=True)
class Setting:
    """One game on one fleet under one policy."""

    policy: str
    schedule: Schedule
    world: World = field(default_factory=World)
    rtt: Rtt = field(default_factory=FittedRtt)
    fleet: FlowSettings = FLEET
    servers: tuple[str, ...] = SERVERS


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run, second by second; and when it was decided to change routes, to rent and to release servers."""

    at_s: Floats
    players: Floats
    response_ms: Floats
    offered_hz: Floats
    messages_hz: Floats
    servers: Floats
    mean_ratio: Floats
    busiest_ratio: Floats
    disconnected: float
    rebalanced_s: tuple[float, ...]
    rented_s: tuple[float, ...]
    released_s: tuple[float, ...]

    @property
    def carried(self) -> int:
        """See `carried`."""
        return carried(self.players, self.response_ms)


def smooth(values: Floats) -> Floats:
    """Means over the last `AVERAGE_S` seconds."""
    sums = np.cumsum(np.concatenate((np.zeros(1), values)))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(0, last - AVERAGE_S)
    return np.asarray((sums[last] - sums[first]) / (last - first))


def overwhelmed_at(response_ms: Floats) -> int | None:
    """The second from which on the mean response stayed above the bound for longer than a spike; None: never."""
    begun = 0
    for at, is_over in enumerate((smooth(response_ms) > BOUND_MS).tolist()):
        begun = begun if is_over else at + 1
        if at + 1 - begun > SPIKE_S:
            return begun
    return None


def carried(players: Floats, response_ms: Floats) -> int:
    """How many players were there before it was too much, or in the end.

    0 when it was too much from the first second on: then nothing is known of how many would have been carried.
    """
    at = overwhelmed_at(response_ms)
    if at is None:
        return int(players.max())
    return int(players[at]) if at else 0


def setting_of(policy: str, schedule: Schedule, run: RunSettings) -> Setting:
    """The paper's game; with the latency matrix and the topics' popularity that the run names, if it does."""
    return Setting(
        policy,
        schedule,
        World(popularity=tuple(read_weights(run.popularity).tolist())) if run.popularity else World(),
        read_matrix(run.latency_matrix) if run.latency_matrix else FittedRtt(),
    )


def scaled(setting: Setting, factor: float) -> Setting:
    """The same with servers of `factor` times the bandwidth."""
    capacity = setting.fleet.capacity_bytes_per_s * factor
    return replace(setting, fleet=replace(setting.fleet, capacity_bytes_per_s=capacity))


def play(setting: Setting, seed: int) -> Timeline:
    """One game. Games of the same seed are the same under every policy."""
    game = Game(setting.world, setting.schedule, seed, setting.rtt)
    loop = FlowLoop(game.topics, setting.servers, _planner(setting), setting.fleet)
    return timeline_of(loop.run(_crowds(game, setting)))


def _planner(setting: Setting) -> Planner:
    policy, settings = _POLICIES[setting.policy], Settings(max_brokers=len(setting.servers))
    return lambda snapshot: policy(snapshot, settings, snapshot.at_s)


def timeline_of(seconds: list[Second]) -> Timeline:
    def column(name: str) -> Floats:
        return np.array([getattr(second, name) for second in seconds], dtype=np.float64)

    plans = [(second.at_s, second.plan) for second in seconds if second.plan is not None]
    return Timeline(
        at_s=column("at_s"),
        players=column("clients"),
        response_ms=column("response_ms"),
        offered_hz=column("offered_hz"),
        messages_hz=column("messages_hz"),
        servers=column("servers"),
        mean_ratio=np.array([np.mean(second.load_ratios) for second in seconds]),
        busiest_ratio=np.array([max(second.load_ratios) for second in seconds]),
        disconnected=float(column("disconnected").sum()),
        rebalanced_s=tuple(at_s for at_s, plan in plans if plan.steps),
        rented_s=tuple(at_s for at_s, plan in plans if plan.rent),
        released_s=tuple(at_s for at_s, plan in plans if plan.release),
    )


def _crowds(game: Game, setting: Setting) -> Iterator[tuple[float, Crowd]]:
    step_s = setting.fleet.step_s
    for number in range(int(setting.schedule.end_s / step_s) + 1):
        game.step(number * step_s)
        yield number * step_s, game.crowd()
