"""Subscribers with common interests: communities, each with subscriptions of its own, spread over all places."""

import numpy as np

from nearcast.domain.homes import Homes
from nearcast.lab.workloads.crowd import distances_km, skewed, spread_evenly

BROKERS = tuple(f"broker-{number + 1:02}" for number in range(10))

_SUBSCRIBERS, _COMMUNITIES, _KEYS_EACH = 2_000, 50, 40
_SUBSCRIPTIONS = (10, 31)
_MEAN, _DEVIATION = 15e3, 4e3  # bytes a second
_REGION_KM = np.array([10.0, 10.0])


def communities(share: float, seed: int) -> Homes:
    """Everybody at the nearest broker; `share` of what one subscribes to is of the own community, the rest anything."""
    rng = np.random.default_rng((seed, 6))
    keys = _COMMUNITIES * _KEYS_EACH
    chosen = []
    for community in rng.integers(0, _COMMUNITIES, _SUBSCRIBERS).tolist():
        count = int(rng.integers(*_SUBSCRIPTIONS))
        own = community * _KEYS_EACH + rng.integers(0, _KEYS_EACH, count)
        chosen.append(np.unique(np.where(rng.random(count) < share, own, rng.integers(0, keys, count))))
    people, brokers = skewed(_SUBSCRIBERS, _REGION_KM, rng), spread_evenly(len(BROKERS), _REGION_KM, rng)
    return Homes.among(
        subscribers=tuple(f"s{number:05}" for number in range(_SUBSCRIBERS)),
        home=distances_km(people, brokers).argmin(axis=1),
        keys=tuple(f"k{number:05}" for number in range(keys)),
        rate=np.maximum(rng.normal(_MEAN, _DEVIATION, keys), 0.0),
        first=np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum([len(each) for each in chosen]))),
        key=np.concatenate(chosen),
    )
