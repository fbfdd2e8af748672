"""EP-10: brokers with too much, by a resource or by their output rate, are relieved in one round by the fewest moves.

Flow level, many seeds: one broker of several is above a watermark, and a plan is carried out. Servers use processor and
memory by the messages in and out, as section 3.4.3 takes it. What the fewest moves would have been is found by trying:
all sets of topics, and all ways to spread them over brokers with room. The same servers once more, with something that
each uses even when idle and a price per byte, which no policy knows of: how often one round is not enough then.

Live: servers with a share of a processor, or a watermark of messages, that the topics on the first exceed; the running
coordinator relieves it, and the history is checked.
"""

import asyncio
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.load import BrokerReport, Resources, TopicLoad
from nearcast.domain.places import Clients, Spots, gathered
from nearcast.domain.ring import Ring
from nearcast.domain.route import Strategy, route
from nearcast.domain.snapshot import Floats, Snapshot
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.fanout import map_seeds
from nearcast.lab.live.overload import Relief, Trigger, relieve
from nearcast.policies.epulsar import epulsar
from nearcast.policies.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SEEDS, _QUICK_SEEDS = 1000, 100
_KINDS = ("bandwidth", "processors", "memory", "messages")
_CAPACITY = (10e6, 1.0, 1e9)  # bytes/s, processors, bytes of memory
_MESSAGES = 20_000.0
_IDLE = 0.05  # of its processors and memory, what an idle server uses in the second reckoning
_BYTE_PART = 0.3  # of its processors, what goes by bytes and not by messages
_TRIED = 5  # moves, where the policy finds no way: more are not tried
_LIVE_S, _QUICK_LIVE_S = 60.0, 30.0
_SLACK = 1e-6

LEFT = "brokers above the watermark after one round, {} (all seeds)"
MORE = "moves beyond the fewest, {} (all seeds)"
RESOURCE_LEFT = Expectation("EP-10", LEFT.format("by a resource"), "== 0")
RATE_LEFT = Expectation("EP-10", LEFT.format("by output rate"), "== 0")
RESOURCE_MORE = Expectation("EP-10", MORE.format("by a resource"), "== 0")
RATE_MORE = Expectation("EP-10", MORE.format("by output rate"), "== 0")
PUSHED = Expectation("EP-10", "receivers that were pushed over a limit (all seeds)", "== 0")
LIVE_ROUNDS = Expectation("EP-10", "live: most rounds until a server was below its watermark", ">= 1 and <= 1")
LIVE_AFTER = Expectation("EP-10", "live: use over the watermark afterwards (largest)", "<= 1")
LIVE_LOST = Expectation("EP-10", "live: messages lost, repeated or out of order", "== 0")


class SeedRow(NamedTuple):
    """`fewest` None: no few moves would have been enough. `left_real`: with what no policy knows of."""

    seed: int
    kind: str
    over: float
    topics: int
    moves: int
    fewest: int | None
    left: int
    pushed: int
    left_real: int


class _World(NamedTuple):
    """Columns of `uses` (per topic) and `limit` are those of _KINDS."""

    topics: tuple[TopicLoad, ...]
    where: tuple[int, ...]
    uses: Floats
    limit: Floats
    brokers: tuple[str, ...]


def one_seed(seed: int) -> SeedRow:
    rng = np.random.default_rng(seed)
    kind = seed % len(_KINDS)
    over = float(rng.uniform(1.02, 1.5))
    world = _world(rng, kind, over)
    plan = epulsar(_snapshot(world, world.uses), Settings(), 0.0)
    after = _after(world, plan_of := {step.topic: step.brokers[0] for step in plan.steps})
    load = _loads(world, after, world.uses)
    received = sorted({world.brokers.index(name) for name in plan_of.values()})
    pushed = int((load[received] > world.limit[received] * (1 + _SLACK)).any(axis=1).sum())
    here = [at for at, broker in enumerate(world.where) if broker == 0]
    left = bool((load[0] > world.limit[0] * (1 + _SLACK)).any())
    return SeedRow(
        seed,
        _KINDS[kind],
        round(over, 3),
        len(here),
        len(plan.steps),
        _fewest(world, here, _TRIED if left else len(plan.steps)),
        int(left),
        pushed,
        _left_in_reality(world),
    )


def _world(rng: np.random.Generator, kind: int, over: float) -> _World:
    """Broker 0 is at `over` times the limit of one kind and below the others; the others have some room."""
    brokers = tuple(f"b{number}" for number in range(int(rng.integers(3, 6))))
    counts = [int(rng.integers(4, 11)), *(int(rng.integers(1, 4)) for _ in brokers[1:])]
    where = tuple(int(at) for at in np.repeat(np.arange(len(brokers)), counts))
    subscribers = rng.integers(1, 20, len(where))
    size = rng.choice([100.0, 500.0, 2000.0], len(where))
    publications = rng.lognormal(0.0, rng.uniform(0.1, 1.0), len(where))
    per = np.column_stack(
        (publications * subscribers * size, *(publications * (1 + subscribers),) * 2, publications * subscribers)
    )
    limit = np.array([*(0.85 * each for each in _CAPACITY), _MESSAGES])
    # Each broker's topics are made as busy as is wanted of it, by their publications.
    scale, rate = np.ones(len(where)), 1.0
    for broker in range(len(brokers)):
        mine = np.array(where) == broker
        share = per[mine].sum(axis=0) / limit
        if broker == 0:
            share[[1, 2]] = 0.0  # what a message takes is set below
            factor = over / share[kind] if kind in {0, 3} else 0.9 / share.max()
            factor = min(factor, *(0.98 / each for at, each in enumerate(share) if at != kind and each > 0))
            if kind in {0, 3} and factor * share[kind] < over:
                return _world(rng, kind, over)  # another limit would be exceeded first
        else:
            share[[1, 2]] = over * per[mine, 1].sum() / rate
            factor = rng.uniform(0.1, 0.5) / share.max()
        scale[mine] = factor
        if broker == 0:
            rate = factor * float(per[mine, 1].sum())
    publications, per = publications * scale, per * scale[:, None]
    for column in (1, 2):
        per[:, column] *= (over if column == kind else 0.9) * limit[column] / rate
    topics = tuple(
        TopicLoad(
            f"t{at:02}",
            float(publications[at]),
            float(publications[at] * subscribers[at]),
            float(publications[at] * size[at]),
            float(publications[at] * subscribers[at] * size[at]),
            1,
            int(subscribers[at]),
        )
        for at in range(len(where))
    )
    return _World(topics, where, per, np.tile(limit, (len(brokers), 1)), brokers)


def _snapshot(world: _World, uses: Floats, idle: float = 0.0) -> Snapshot:
    load = _loads(world, world.where, uses)
    most = Resources(_CAPACITY[1], _CAPACITY[2], _MESSAGES)
    reports = [
        BrokerReport(
            name,
            0.0,
            float(load[at, 0]),
            _CAPACITY[0],
            tuple(each for each, where in zip(world.topics, world.where, strict=True) if where == at),
            Resources(
                float(load[at, 1]) + idle * _CAPACITY[1], float(load[at, 2]) + idle * _CAPACITY[2], float(load[at, 3])
            ),
            most,
        )
        for at, name in enumerate(world.brokers)
    ]
    names = [each.topic for each in world.topics]
    routes = {
        name: route(1, Strategy.SINGLE, (world.brokers[at],)) for name, at in zip(names, world.where, strict=True)
    }
    count = len(names)
    topic = np.repeat(np.arange(count), 2)
    nowhere = Spots(np.zeros((2 * count, 2)), np.zeros(2 * count))
    side = np.arange(2 * count) % 2 == 0
    spots = Spots(np.zeros((len(world.brokers), 2)), np.zeros(len(world.brokers)))
    places = gathered(Clients(topic, nowhere, side, ~side), spots, np.array(world.where), np.full(count, np.inf))
    return Snapshot.of(reports, routes, Ring(world.brokers), at_s=0.0, places=places)


def _after(world: _World, moved: dict[str, str]) -> tuple[int, ...]:
    return tuple(
        world.brokers.index(moved[each.topic]) if each.topic in moved else at
        for each, at in zip(world.topics, world.where, strict=True)
    )


def _loads(world: _World, where: tuple[int, ...], uses: Floats) -> Floats:
    load = np.zeros((len(world.brokers), uses.shape[1]))
    np.add.at(load, np.array(where), uses)
    return load


def _fewest(world: _World, here: list[int], most: int) -> int | None:
    """By trying all; None where no `most` are enough."""
    load = _loads(world, world.where, world.uses)
    excess, room = load[0] - world.limit[0], world.limit[1:] * (1 + _SLACK) - load[1:]
    for number in range(1, min(most, len(here)) + 1):
        for gone in combinations(here, number):
            if (world.uses[list(gone)].sum(axis=0) >= excess - _SLACK * world.limit[0]).all() and _fit(
                world.uses[list(gone)], room
            ):
                return number
    return None


def _fit(uses: Floats, room: Floats) -> bool:
    """Whether these can be spread over brokers with that room."""
    if not len(uses):
        return True
    if (uses.sum(axis=0) > np.maximum(room, 0.0).sum(axis=0)).any():
        return False
    for at in range(len(room)):
        if (uses[0] <= room[at]).all():
            left = room.copy()
            left[at] -= uses[0]
            if _fit(uses[1:], left):
                return True
    return False


def _left_in_reality(world: _World) -> int:
    """One round where a part of the processors goes by bytes, and every server uses something when it is idle."""
    uses = world.uses.copy()
    for_bytes = uses[:, 0] * uses[:, 1].sum() / uses[:, 0].sum()
    uses[:, 1] = (1 - _BYTE_PART) * uses[:, 1] + _BYTE_PART * for_bytes
    plan = epulsar(_snapshot(world, uses, _IDLE), Settings(), 0.0)
    load = _loads(world, _after(world, {step.topic: step.brokers[0] for step in plan.steps}), uses)
    load[:, [1, 2]] += _IDLE * np.array(_CAPACITY[1:])
    return int((load[0] > world.limit[0] * (1 + _SLACK)).any())


def _flow(settings: RunSettings, progress: Progress) -> Outcome:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    rows = map_seeds(one_seed, range(settings.seed, settings.seed + count), settings.jobs, progress)
    possible = [row for row in rows if row.fewest is not None]
    by_rate = [row for row in possible if row.kind == "messages"]
    by_resource = [row for row in possible if row.kind != "messages"]
    claims = (
        RESOURCE_LEFT.judge(sum(row.left for row in by_resource)),
        RATE_LEFT.judge(sum(row.left for row in by_rate)),
        RESOURCE_MORE.judge(sum(row.moves - (row.fewest or 0) for row in by_resource if not row.left)),
        RATE_MORE.judge(sum(row.moves - (row.fewest or 0) for row in by_rate if not row.left)),
        PUSHED.judge(sum(row.pushed for row in rows)),
    )
    metrics = {
        "seeds": count,
        "where_no_few_would_do": count - len(possible),
        "moves": sum(row.moves for row in possible),
        "left_with_idle_use_and_a_price_per_byte": round(sum(row.left_real for row in possible) / len(possible), 4),
    }
    return Outcome(
        claims=claims,
        metrics=metrics,
        tables={"seeds": Table(SeedRow._fields, tuple(tuple(row) for row in rows))},
        figures={"moves": partial(_draw_moves, possible)},
    )


def _draw_moves(rows: list[SeedRow], figure: "Figure") -> None:
    axes = figure.add_subplot()
    most = max(max(row.moves, row.fewest or 0) for row in rows)
    width = 0.8 / len(_KINDS)
    for number, kind in enumerate(_KINDS):
        counts = np.bincount([row.moves for row in rows if row.kind == kind], minlength=most + 1)
        axes.bar(np.arange(most + 1) + (number - 1.5) * width, counts, width, label=kind)
    fewest = np.bincount([row.fewest or 0 for row in rows], minlength=most + 1) / len(_KINDS)
    axes.plot(np.arange(most + 1), fewest, "k_", markersize=24, label="fewest possible, mean of kinds")
    axes.set_xlabel("moves of one round")
    axes.set_ylabel("seeds")
    axes.legend()


def _live(settings: RunSettings, progress: Progress) -> Outcome:
    kind, seconds = settings.brokers or "nats", _QUICK_LIVE_S if settings.quick else _LIVE_S
    found: dict[Trigger, Relief] = {}
    triggers: tuple[Trigger, ...] = ("messages",) if settings.quick else ("messages", "processors")
    for number, trigger in enumerate(triggers):
        progress(number, len(triggers), "runs")
        found[trigger] = asyncio.run(relieve(kind, trigger, seconds=seconds, seed=settings.seed))
    checks = [each.checked for each in found.values()]
    wrong = sum(len(one.lost) + len(one.duplicated) + len(one.reordered) + len(one.invented) for one in checks)
    return Outcome(
        claims=(
            LIVE_ROUNDS.judge(max(each.rounds for each in found.values())),
            LIVE_AFTER.judge(max(each.after for each in found.values())),
            LIVE_LOST.judge(wrong),
        ),
        metrics={
            "brokers": kind,
            "runs": {
                trigger: {
                    "limit": round(each.limit, 4),
                    "use_before": each.before,
                    "use_after": each.after,
                    "rounds": each.rounds,
                    "moves": each.moves,
                    "published": each.checked.published,
                    "delivered": each.checked.delivered,
                    "gaps": each.checked.gaps,
                }
                for trigger, each in found.items()
            },
        },
        tables={
            "looks": Table(
                ("trigger", "at_s", "use_over_watermark", "topics_moved"),
                tuple(
                    (trigger, look.at_s, look.used, look.moved) for trigger in found for look in found[trigger].looks
                ),
            )
        },
        figures={"relief": partial(_draw_relief, found)},
    )


def _draw_relief(found: dict[Trigger, Relief], figure: "Figure") -> None:
    axes = figure.add_subplot()
    for trigger, each in found.items():
        axes.plot([look.at_s for look in each.looks], [look.used for look in each.looks], label=trigger)
        moved = [look for before, look in zip(each.looks, each.looks[1:], strict=False) if look.moved > before.moved]
        axes.plot([look.at_s for look in moved], [look.used for look in moved], "v", color="black")
    axes.axhline(1.0, color="gray", linestyle="--", linewidth=1, label="watermark")
    axes.set_xlabel("seconds")
    axes.set_ylabel("use over the watermark, first server")
    axes.set_title("triangles: topics have moved away")
    axes.set_ylim(bottom=0)
    axes.legend()


def _measure(settings: RunSettings, progress: Progress) -> Outcome:
    return (_live if settings.mode == "live" else _flow)(settings, progress)


EXPERIMENT = Experiment(
    name="epulsar.overload",
    paper="ePulsar, sections 3.4.2 and 3.4.3",
    summary="a broker with too much, by a resource or by its output rate, is relieved in one round by the fewest moves",
    expectations=(
        RESOURCE_LEFT,
        RATE_LEFT,
        RESOURCE_MORE,
        RATE_MORE,
        PUSHED,
        LIVE_ROUNDS,
        LIVE_AFTER,
        LIVE_LOST,
    ),
    modes=("flow", "live"),
    measure=_measure,
    options=("seeds", "brokers"),
)
