"""Clients that find their place by brokers, as these stand by themselves and as the leader's map has them."""

import numpy as np
from numpy.typing import NDArray

from nearcast.coords.chart import charted
from nearcast.coords.engine import Engine
from nearcast.domain.whereabouts import Spot

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_BROKERS = 64
_PEERS = 16  # that a broker's agent has measured
_PROBED = 5  # brokers that a client has
_ROUNDS, _CLIENT_ROUNDS = 1_000, 150
_REDRAWN = 24


def clients_predict(rtt_s: Floats, rng: np.random.Generator, *, on_map: bool) -> tuple[Floats, Floats]:
    """What clients predict for brokers that they have not measured, and what it is. Nodes at random are brokers."""
    order = rng.permutation(len(rtt_s))
    brokers, clients = order[:_BROKERS], order[_BROKERS:]
    known = _brokers(rtt_s[np.ix_(brokers, brokers)], rng, on_map=on_map)
    to_brokers_s = rtt_s[np.ix_(clients, brokers)]
    count = len(clients)
    engine = Engine(count + _BROKERS, rng)
    for part in ("vec", "height", "adjustment", "error"):
        getattr(engine, part)[count:] = getattr(known, part)
    probed = _some(_BROKERS, count, _PROBED, rng)
    peer, measured_s = np.zeros(len(engine), dtype=np.intp), np.full(len(engine), np.nan)
    rows = np.arange(count)
    for _ in range(_CLIENT_ROUNDS):
        asked = probed[rows, rng.integers(0, _PROBED, count)]
        peer[:count], measured_s[:count] = count + asked, to_brokers_s[rows, asked]
        engine.step(peer, measured_s)
    unseen = np.ones((count, _BROKERS), dtype=np.bool_)
    unseen[rows[:, None], probed] = False
    client, broker = np.nonzero(unseen)
    return engine.distances_s(client, count + broker), to_brokers_s[client, broker]


def _brokers(rtt_s: Floats, rng: np.random.Generator, *, on_map: bool) -> Engine:
    count = len(rtt_s)
    engine = Engine(count, rng)
    peers = _some(count - 1, count, _PEERS, rng)
    rows = np.arange(count)
    peers += peers >= rows[:, None]
    for _ in range(_ROUNDS):
        asked = peers[rows, rng.integers(0, _PEERS, count)]
        engine.step(asked, rtt_s[rows, asked])
    if on_map:
        names = [f"{number:02}" for number in range(count)]
        measured_s = {
            (names[one], names[other]): float(rtt_s[one, other])
            for one in range(count)
            for other in peers[one].tolist()
            if np.isfinite(rtt_s[one, other])
        }
        spots = {name: Spot(tuple(engine.vec[at].tolist()), float(engine.height[at])) for at, name in enumerate(names)}
        drawn = charted(spots, measured_s)
        for _ in range(_REDRAWN - 1):
            spots |= {name: Spot(each.vec, each.height) for name, each in drawn.items()}
            drawn = charted(spots, measured_s)
        for at, name in enumerate(names):
            if name in drawn:
                engine.vec[at], engine.height[at] = drawn[name].vec, drawn[name].height
                engine.adjustment[at], engine.error[at] = 0.0, drawn[name].error
    return engine


def _some(among: int, rows: int, count: int, rng: np.random.Generator) -> Ints:
    """In each row `count` different ones of `among`."""
    return np.asarray(np.argsort(rng.random((rows, among)), axis=1)[:, :count])
