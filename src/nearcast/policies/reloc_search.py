"""Policy `reloc-search`, ours: from RELOC's homes on, whatever single change lowers Y most, until none does.

Every client is looked at in turn, with what each server would make of it (`Ways`), and goes where Y is lowest. When
nobody would go, whole groups are tried: those who publish one topic from one server, to another server of that topic,
since one of them alone only adds a copy of its spool. It ends where neither finds anything worth a round, or after
`sweeps` rounds; it is never worse than where it began. It begins with RELOC's homes and with the nearest servers, and
keeps the better end; where everybody has a home already it begins with that one, so that what need not move stays.
"""

from __future__ import annotations

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.places import Ints
from nearcast.policies.ways import Ways
from nearcast.predict.homed import Pattern

_LEAST = 1e-9  # of Y, won by one move: less is an error of rounding
_WORTH = 1e-4  # of Y, won by a round: for less there is no other round
_MOST_GROUP = 64


def searched(area: Area, home: Ints, sweeps: int, pattern: Pattern | None = None) -> Ints:
    """From homes that everybody has to better ones."""
    ways = Ways(area, home, pattern)
    total_s = max(ways.total_s(), 1e-12)
    for _ in range(sweeps):
        won_s = sweep(ways, _LEAST * total_s)
        if won_s < _WORTH * total_s:
            won_s += sweep_groups(ways, _LEAST * total_s)
        if won_s < _WORTH * total_s:
            break
    return ways.home


def sweep(ways: Ways, least_s: float) -> float:
    """Each client once. What was won, of Y times I."""
    won_s = 0.0
    for client in range(len(ways.home)):
        gains = ways.gains(client)
        to = int(gains.argmax())
        if gains[to] > least_s:
            ways.move(client, to)
            won_s += float(gains[to])
    return won_s


def sweep_groups(ways: Ways, least_s: float) -> float:
    """Publishers of one topic at one server, all of them to that server of the topic which would be best for them one
    by one. What was won.
    """
    area, won_s = ways.area, 0.0
    owner = area.owner[area.publishes]
    order = np.argsort(area.topic[area.publishes], kind="stable")
    owner, topic = owner[order], area.topic[area.publishes][order]
    for members in np.split(owner, np.flatnonzero(np.diff(topic)) + 1):
        servers = np.unique(ways.home[members])
        for here in servers.tolist() if len(servers) > 1 else ():
            group = members[ways.home[members] == here]
            if 2 <= len(group) <= _MOST_GROUP:
                won_s += _go_together(ways, group, servers[servers != here], least_s)
    return won_s


def _go_together(ways: Ways, group: Ints, servers: Ints, least_s: float) -> float:
    """They go if that is better, and are back otherwise."""
    here = int(ways.home[group[0]])
    apart = sum((ways.gains(client)[servers] for client in group.tolist()), start=np.zeros(len(servers)))
    to = int(servers[apart.argmax()])
    gained_s = 0.0
    for client in group.tolist():
        gained_s += float(ways.gains(client)[to])
        ways.move(client, to)
    if gained_s > least_s:
        return gained_s
    for client in group.tolist():
        ways.move(client, here)
    return 0.0
