"""RELOC (section 6, Algorithm 1): homes near clients, together with whom they have most in common, where
there is room.

Three steps, each of which can be left out (Figure 10):

- *locality* (line 17): servers are divided into K clusters by K-means of their positions; a client's home is a server
  of the cluster whose middle is nearest. Left out, all servers are one cluster.
- *relation* (lines 22 to 31): the home of the strongest relation who has one in the client's cluster, at a server that
  keeps all of its topics (theta = 1). Left out, or where there is nobody: line 23.
- *cooperation* (lines 36 to 42): where a topic that was added is too much for its server, the client goes to the server
  of its cluster that is used least. Left out, it stays.

What the paper leaves open, and how it is read here:

- Line 23 takes "the server" with theta = 1 of the cluster: the nearest one to the client. If none has theta = 1, the
  nearest one all the same; the cooperation step then looks for the one that is used least.
- A client of several topics is met once for each. It gets its home when it is met first, and keeps it: each further
  topic comes to that home, and moves it only by the cooperation step. (Lines 23 to 32 as written would give it a second
  home, which equation 5 forbids.) One that only subscribes gets a home by the same lines and uses nothing there.
- "Resource usage" is the larger of storage / A_l and v_l / B_l, of which theta is the inverse. A client moves in line
  38 only if that server is used less than its own: else it would change places for nothing.
- T' of line 40 are all topics that the client publishes, also those it has not been met for yet.
- Whom the cooperation step moves: the pseudocode moves the client, the text all publishers of the topic who are at that
  server. Both are there (`moves`); the default is the text, by which Y is lower (docs/papers/reloc.md).
- Topics, and clients within one, are met in the order of their names; equally near or equally used servers are decided
  by name.
- K-means begins with the server nearest to the middle of all and then, again and again, the one farthest from those
  chosen, so that it needs no chance.

Where K is not given, it is tried with 1, 2, 4, ... and as many as there are servers, then halfway between the best and
the next ones tried, until those are next to it; the one with the least Y is taken, of equal ones the smallest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nearcast.domain.area import NOWHERE, Area
from nearcast.domain.places import Floats, Ints, Spots
from nearcast.policies.relations import relations_of
from nearcast.policies.settings import Allocation
from nearcast.policies.spools import Spools
from nearcast.predict.homed import Pattern, delay_of

_MOST_ROUNDS = 100
_CLIENTS_AT_ONCE = 1 << 16
_NOBODY: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """The cluster of every server and client, and the servers of each cluster."""

    of_server: Ints
    of_client: Ints
    members: tuple[Ints, ...]


def locality(area: Area, count: int) -> Clusters:
    """The first step: K-means of the servers' positions, and for each client the cluster whose middle is nearest."""
    middles = _middles(area.servers.vec, min(count, len(area.servers)))
    of_server = _nearest(area.servers.vec, middles)
    kept = np.unique(of_server)  # one that no server is nearest to is none
    of_server = np.searchsorted(kept, of_server)
    return Clusters(
        of_server,
        _nearest(area.at.vec, middles[kept]),
        tuple(np.flatnonzero(of_server == each) for each in range(len(kept))),
    )


def relation(spools: Spools, clusters: Clusters, client: int, related: Ints) -> int | None:
    """The second step: where the strongest relation is who is in the same cluster, and has room around."""
    homes = spools.home[related]
    homes = homes[homes != NOWHERE]
    near = homes[clusters.of_server[homes] == clusters.of_client[client]]
    return next((server for server in near.tolist() if spools.keeps_all(server)), None)


def cooperation(spools: Spools, within: Ints, client: int, together: Ints) -> None:
    """The third step: a client whose home has become too full goes where there is most room; `together`: whoever goes
    with it, if they are at the same home.
    """
    was = int(spools.home[client])
    to = int(within[spools.usage[within].argmin()])
    if spools.usage[to] >= spools.usage[was]:
        return
    spools.move(client, to)
    for other in together[spools.home[together] == was].tolist():
        spools.move(other, to)


def nearest_with_room(spools: Spools, within: Ints, client: int) -> int:
    """Line 23."""
    area = spools.area
    apart = area.servers.vec[within] - area.at.vec[client]
    way_s = np.sqrt(np.einsum("ij,ij->i", apart, apart)) + area.servers.height[within]
    room = spools.usage[within] <= 1.0
    return int(within[(np.where(room, way_s, np.inf) if room.any() else way_s).argmin()])


def allocated(area: Area, allocation: Allocation, related: Ints, clusters: int) -> Ints:
    """Algorithm 1: a home for every client."""
    found = locality(area, clusters if allocation.locality else 1)
    spools = Spools(area)
    owner = area.owner
    order = np.lexsort((owner, area.topic))
    publishers = Publishers(area)
    for entry, client in zip(order.tolist(), owner[order].tolist(), strict=True):
        within = found.members[found.of_client[client]]
        if spools.home[client] == NOWHERE:
            beside = relation(spools, found, client, related[client]) if allocation.relation else None
            spools.home[client] = nearest_with_room(spools, within, client) if beside is None else beside
        spools.place(entry, int(spools.home[client]))
        if allocation.cooperation and area.publishes[entry] and not spools.keeps_all(int(spools.home[client])):
            together = publishers.of(int(area.topic[entry])) if allocation.moves == "publishers" else _NOBODY
            cooperation(spools, within, client, together)
    for client in np.flatnonzero(spools.home == NOWHERE).tolist():  # they have no topic
        spools.home[client] = nearest_with_room(spools, found.members[found.of_client[client]], client)
    return spools.home


def chosen_clusters(y_of: Callable[[int], float], servers: int) -> int:
    """K where nobody says it, by the Y that each would give."""
    tried = {count: y_of(count) for count in {*(1 << power for power in range(servers.bit_length())), servers}}
    while True:
        counts = sorted(tried)
        best = min(counts, key=lambda count: (tried[count], count))
        halfway = {(one + other) // 2 for one, other in pairwise(counts) if best in (one, other) and other - one > 1}
        if not halfway:
            return best
        tried |= {count: y_of(count) for count in sorted(halfway)}


def best_allocated(area: Area, allocation: Allocation, related: Ints | None = None) -> tuple[Ints, int]:
    """Homes, and how many clusters they are by: as many as is set, or those that give the least delay."""
    if related is None:
        most = allocation.relations if allocation.relation else 0
        related = relations_of(area, most, allocation.factors)
    if allocation.clusters is not None:
        return allocated(area, allocation, related, allocation.clusters), allocation.clusters
    pattern = Pattern.of(area)
    homes: dict[int, Ints] = {}

    def y_of(count: int) -> float:
        homes[count] = allocated(area, allocation, related, count)
        return delay_of(area, homes[count], pattern).y_s

    count = chosen_clusters(y_of, len(area.servers))
    return homes[count], count


class Publishers:
    def __init__(self, area: Area) -> None:
        publishing = np.flatnonzero(area.publishes)
        order = publishing[np.argsort(area.topic[publishing], kind="stable")]
        self._client = area.owner[order]
        self._first = np.searchsorted(area.topic[order], np.arange(len(area.spool) + 1))

    def of(self, topic: int) -> Ints:
        return self._client[self._first[topic] : self._first[topic + 1]]


def _middles(at: Floats, count: int) -> Floats:
    """K-means, from a start that is the same for the same positions."""
    chosen = [int(((at - at.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    apart = ((at - at[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(apart.argmax()))
        apart = np.minimum(apart, ((at - at[chosen[-1]]) ** 2).sum(axis=1))
    middles = at[chosen]
    for _ in range(_MOST_ROUNDS):
        of = _nearest(at, middles)
        size = np.bincount(of, minlength=count)
        sums = np.stack([np.bincount(of, column, count) for column in at.T], axis=1)
        after = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], middles)
        if np.array_equal(after, middles):
            break
        middles = after
    return middles


def _nearest(at: Floats, middles: Floats) -> Ints:
    flat, them = Spots(at, np.zeros(len(at))), Spots(middles, np.zeros(len(middles)))
    parts = [
        flat[slice(start, start + _CLIENTS_AT_ONCE)].to(them).argmin(axis=1)
        for start in range(0, len(at), _CLIENTS_AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
