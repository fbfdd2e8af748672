"""Where brokers are, by all that their agents measured of each other: what the leader hands back to them.

An agent moves its own coordinate by one measurement at a time. With the map that is fitted to everybody's measurements
the brokers stand better to each other, and so do clients, who find their place by theirs (`epulsar.coordinates`).

It begins where the agents say that they are, which is where it had them last: a few steps are enough each time. Who
has no place yet is not on it: from one point nothing shows a direction. Nor is who was measured by few of many:
a place in eight dimensions with a height, fitted to eight distances, is right for those eight and wrong for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nearcast.coords.coordinate import DIMENSIONS, ERROR_MAX, Coordinate
from nearcast.coords.fit import distances_s, fitted
from nearcast.domain.whereabouts import Spot

_ROUNDS = 60
_FEWEST = 2
_ENOUGH_PEERS = 16
_LEAST_ERROR = 0.05


def charted(spots: Mapping[str, Spot], rtts_s: Mapping[tuple[str, str], float]) -> dict[str, Coordinate]:
    """The place of every broker of which enough is known; none where they are too few.

    `spots`: where agents say that they are. `rtts_s`: what the agent of the first measured of the second.
    """
    peers: dict[str, set[str]] = {broker: set() for broker, spot in spots.items() if _has_place(spot)}
    for one, other in rtts_s:
        if one in peers and other in peers:
            peers[one].add(other)
            peers[other].add(one)
    enough = min(_ENOUGH_PEERS, len(peers) - 1)
    names = sorted(broker for broker, each in peers.items() if len(each) >= enough)
    index = {name: number for number, name in enumerate(names)}
    pairs = [
        (index[one], index[other], rtt_s)
        for (one, other), rtt_s in rtts_s.items()
        if one in index and other in index and rtt_s > 0.0
    ]
    if len(names) < _FEWEST or not pairs:
        return {}
    near, far = (np.array([pair[side] for pair in pairs], dtype=np.intp) for side in (0, 1))
    measured_s = np.array([pair[2] for pair in pairs])
    vec = np.array([spots[name].vec for name in names])
    height = np.array([spots[name].height for name in names])
    vec, height = fitted(vec, height, near, far, measured_s, rounds=_ROUNDS, most_dimensions=DIMENSIONS, gently=True)
    wrong = np.abs(distances_s(vec, height, near, far) - measured_s) / measured_s
    ends = np.concatenate((near, far))
    error = np.bincount(ends, np.tile(wrong, 2), len(names)) / np.maximum(np.bincount(ends, minlength=len(names)), 1)
    error = np.clip(error, _LEAST_ERROR, ERROR_MAX)
    return {
        name: Coordinate(tuple(vec[at].tolist()), float(height[at]), 0.0, float(error[at]))
        for at, name in enumerate(names)
    }


def _has_place(spot: Spot) -> bool:
    return len(spot.vec) == DIMENSIONS and any(spot.vec)
