"""Policies that give the clients of an area their homes (RELOC, sections 6 and 7.2), and what all of them keep to.

- `random`: any server, by a seed.
- `nearest-server`: the nearest one.
- `one-topic-one-server`: all clients of a topic at the server nearest to their middle that keeps all of its topics
  (theta = 1), or the one used least if there is none. The paper does not say which server; what it says of the results
  fits one near the topic's first client (`by_first`), as line 23 of Algorithm 1 would take it, and that is worse. A
  client of several topics has its home by the first; so a topic may be on several servers after all. As in the paper,
  the cooperation step keeps servers from being filled: here with all servers as one cluster, and with all publishers of
  the topic who are there, since one topic is to stay at one server.
- `reloc`: Algorithm 1 (see `reloc`). `reloc-search` is ours. `reloc-exact` is for small areas.

Only brokers that report, are not being drained and have said where they are are given clients. Where everybody has a
home already, the last three change homes only if Y becomes lower by more than a ten-thousandth. With a budget, those
changes are made first by which Y falls most, each with what the earlier ones have made of it; for the last three, none
by which it would not fall. Who has to leave a server comes before; who has no home gets one besides.

A topic that is homed goes to where its clients are at home by then, and leaves brokers where none of them is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from nearcast.domain.area import NOWHERE, Area
from nearcast.domain.places import Bools, Ints
from nearcast.domain.plan import HomeStep, Plan, Step
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import STRATEGIES, Snapshot
from nearcast.policies.reloc import Publishers, best_allocated, cooperation
from nearcast.policies.reloc_exact import exact
from nearcast.policies.reloc_search import searched
from nearcast.policies.settings import Allocation, Settings
from nearcast.policies.spools import Spools
from nearcast.policies.ways import Ways
from nearcast.predict.homed import delay_of

RANDOM, NEAREST, ONE_TOPIC = "random", "nearest-server", "one-topic-one-server"
RELOC, SEARCH, EXACT = "reloc", "reloc-search", "reloc-exact"

Homing = Callable[[Area, Allocation], Ints]
"""A home for every client, among the servers of an area."""

_SLACK = 1e-9
_WORTH = 1e-4  # of Y: for less nobody moves


def at_random(area: Area, allocation: Allocation) -> Ints:
    return np.random.default_rng(allocation.seed).integers(0, len(area.servers), len(area.clients))


def nearest(area: Area, allocation: Allocation) -> Ints:  # noqa: ARG001  # nothing to set
    return np.asarray(area.at.to(area.servers).argmin(axis=1))


def one_topic_one_server(area: Area, allocation: Allocation, *, by_first: bool = False) -> Ints:
    spools, everywhere = Spools(area), np.arange(len(area.servers))
    publishers = Publishers(area)
    order = np.argsort(area.topic, kind="stable")
    owner = area.owner
    for entries in np.split(order, np.flatnonzero(np.diff(area.topic[order])) + 1) if len(order) else ():
        members = owner[entries]
        topic = int(area.topic[entries[0]])
        new = members[spools.home[members] == NOWHERE]
        server = _server_near(spools, new[:1] if by_first else members) if len(new) else NOWHERE
        for entry, client in zip(entries.tolist(), members.tolist(), strict=True):
            if spools.home[client] == NOWHERE:
                spools.home[client] = server
            home = int(spools.home[client])
            spools.place(entry, home)
            if allocation.cooperation and area.publishes[entry] and not spools.keeps_all(home):
                cooperation(spools, everywhere, client, publishers.of(topic))
                server = int(spools.home[client]) if home == server else server
    left = spools.home == NOWHERE  # they have no topic
    spools.home[left] = area.at[left].to(area.servers).argmin(axis=1)
    return spools.home


def _server_near(spools: Spools, members: Ints) -> int:
    area = spools.area
    way_s = np.linalg.norm(area.servers.vec - area.at.vec[members].mean(axis=0), axis=1) + area.servers.height
    room = spools.usage <= 1.0
    return int(np.where(room, way_s, np.inf).argmin() if room.any() else spools.usage.argmin())


def by_reloc(area: Area, allocation: Allocation) -> Ints:
    return best_allocated(area, allocation)[0]


def by_search(area: Area, allocation: Allocation) -> Ints:
    """From where they are, if all are somewhere: what need not move stays."""
    starts = [area.home] if (area.home != NOWHERE).all() else [by_reloc(area, allocation), nearest(area, allocation)]
    ends = [searched(area, start, allocation.sweeps) for start in starts]
    return min(ends, key=lambda end: delay_of(area, end).y_s)


def by_proof(area: Area, allocation: Allocation) -> Ints:
    return searched(area, exact(area, by_search(area, allocation)), allocation.sweeps)


def policy_of(name: str, homing: Homing, *, only_better: bool) -> Callable[[Snapshot, Settings, float], Plan]:
    def allocate(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
        if snapshot.area is None or not snapshot.area.clients:
            return Plan(name, now_s, reasons=("no client is known that could be given a home",))
        servers = np.flatnonzero(snapshot.usable & snapshot.area.reachable)
        if not len(servers):
            return Plan(name, now_s, reasons=("no broker reports, is not being drained, and has said where it is",))
        area = snapshot.area.among(servers)
        target = homing(area, settings.allocation)
        most = settings.allocation.most_changes
        home = rehomed(area, target, most, leaving=snapshot.area.home != NOWHERE, only_better=only_better)
        to = np.append(servers, NOWHERE)[home]
        reasons, homes = _reasons(area, target, home), _home_steps(snapshot, snapshot.area, to)
        return Plan(name, now_s, _route_steps(snapshot, snapshot.area, to), reasons=reasons, homes=homes)

    return allocate


def rehomed(area: Area, target: Ints, most: int | None, *, leaving: Bools, only_better: bool) -> Ints:
    """From the homes of the area to those of the target, with at most so many changes; NOWHERE for whoever is `leaving`
    a server that is not of the area, and has to wait for its turn.
    """
    homeless = area.home == NOWHERE
    begun = np.where(homeless, target, area.home)
    if only_better and most is None and delay_of(area, begun).y_s * (1.0 - _WORTH) <= delay_of(area, target).y_s:
        return begun
    if most is None:
        return target
    must = np.flatnonzero(homeless & leaving)
    left = most - len(must)
    if left < 0:
        begun[must[most:]] = NOWHERE
        return begun
    wanted = np.flatnonzero(begun != target)
    ways = Ways(area, begun)
    # The best first. A gain may have changed since it was computed: it is looked at again before it is taken.
    queue = [(-float(ways.gains(client)[target[client]]), client) for client in wanted.tolist()]
    heapq.heapify(queue)
    while queue and left:
        _, client = heapq.heappop(queue)
        loss = -float(ways.gains(client)[target[client]])
        if queue and loss > queue[0][0] + _SLACK * abs(loss):
            heapq.heappush(queue, (loss, client))
            continue
        if only_better and loss >= 0.0:
            break
        ways.move(client, int(target[client]))
        left -= 1
    return ways.home


def _home_steps(snapshot: Snapshot, area: Area, to: Ints) -> tuple[HomeStep, ...]:
    """`area` has all servers; `to` are the homes to be, NOWHERE for who waits for its turn."""
    moving = np.flatnonzero((to != area.home) & (to != NOWHERE))
    names = (*snapshot.brokers, "")  # the last for whoever had no home
    was, will = area.home[moving].tolist(), to[moving].tolist()
    ways = zip(_ways_ms(area, area.home, moving), _ways_ms(area, to, moving), strict=True)
    return tuple(
        HomeStep(area.clients[client], names[new], names[old], _why(names[old], names[new], *ms))
        for client, old, new, ms in zip(moving.tolist(), was, will, ways, strict=True)
    )


def _route_steps(snapshot: Snapshot, area: Area, to: Ints) -> tuple[Step, ...]:
    """Clients may be told of a home before the route has it: they go there when it does."""
    homed = (snapshot.strategy == STRATEGIES.index(Strategy.HOMED)) & ~snapshot.held
    final = np.where(to == NOWHERE, area.home, to)[area.owner]
    counts = homed[area.topic] & (final != NOWHERE) & snapshot.usable[final]
    wanted: dict[int, list[str]] = {}
    for topic, broker in np.unique(np.stack((area.topic[counts], final[counts]), axis=1), axis=0).tolist():
        wanted.setdefault(topic, []).append(snapshot.brokers[broker])
    steps = []
    for topic, brokers in wanted.items():
        was, will = snapshot.brokers_of(topic), tuple(brokers)
        if was != will:
            name, why = snapshot.topics[topic], _why_there(was, will)
            steps.append(Step(name, Strategy.HOMED, will, Strategy.HOMED, was, why))
    return tuple(steps)


def _why_there(was: tuple[str, ...], will: tuple[str, ...]) -> str:
    new, left = sorted(set(will) - set(was)), sorted(set(was) - set(will))
    told = [f"clients of it are to be at home at {', '.join(new)}"] if new else []
    return "; ".join([*told, f"none of them will be at {', '.join(left)}"] if left else told)


def _ways_ms(area: Area, home: Ints, clients: Ints) -> list[float]:
    found: list[float] = (1e3 * area.home_s(home)[clients]).tolist()
    return found


def _why(was: str, will: str, was_ms: float, will_ms: float) -> str:
    if not was:
        return f"it had no home; {will} is {will_ms:.3f} ms away"
    return f"{will} is {will_ms:.3f} ms away, {was} is {was_ms:.3f} ms; notifications come earlier over all"


def _reasons(area: Area, target: Ints, home: Ints) -> tuple[str, ...]:
    told = []
    known = area.home != NOWHERE
    if known.all():
        before = delay_of(area, area.home)
        told.append(f"Y is {1e3 * before.y_s:.3f} ms as it is")
    waiting = int((home == NOWHERE).sum())
    after = delay_of(area, np.where(home == NOWHERE, target, home))
    told.append(f"Y is expected to be {1e3 * after.y_s:.3f} ms: Y1 {1e3 * after.y1_s:.3f}, Y2 {1e3 * after.y2_s:.3f}")
    if waiting:
        told.append(f"{waiting} clients have to leave their home, and wait for the next plan")
    elif (home != target).any():
        told.append(f"{int((home != target).sum())} homes stay that might be changed")
    if (after.theta < 1.0).any():
        told.append(f"{int((after.theta < 1.0).sum())} servers lack storage or compute, and delegate to the cloud")
    return tuple(told)


at_random_policy = policy_of(RANDOM, at_random, only_better=False)
nearest_policy = policy_of(NEAREST, nearest, only_better=False)
one_topic_policy = policy_of(ONE_TOPIC, one_topic_one_server, only_better=False)
reloc_policy = policy_of(RELOC, by_reloc, only_better=True)
search_policy = policy_of(SEARCH, by_search, only_better=True)
exact_policy = policy_of(EXACT, by_proof, only_better=True)
