"""Which broker is whose home, who subscribes to what, and how many bytes a second come of it: what balancing sees.

Everything that identical subscriptions share has one key (BAD, section 3.1): a broker pulls the results of a key once
and sends them to each of its subscribers. Equation 5 of BAD is the load that follows:

    F_j = sum over k of z_jk (1 + n_jk) lambda_k

n_jk subscribers of broker j have key k, z_jk is 1 where there is one, and lambda_k is the rate of k's results.

Sums do not depend on their order here. `Homes.of` and `Homes.among` round rates to multiples of a power of two, which
is so large that all loads are whole multiples of it below 2^53 and so small that nobody can tell: a load that was
followed from move to move equals, bit for bit, the one that is computed anew. What decides between brokers that are
equally loaded is then their names, and never an error of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.errors import SnapshotError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_Array = TypeVar("_Array", Floats, Ints)

MOST_BYTES_PER_S = 1e18
_EXACT_BITS = 52
_FINEST = -200  # of the exponent: far below what a byte now and then would be, far above where floats end


@dataclass(frozen=True, slots=True, eq=False)
class Homes:
    """Build one with `of` or `among`. Subscribers and keys are sorted by name. The arrays are read-only.

    `home` holds indices of the snapshot's brokers. Subscriber i has the keys `key[first[i]:first[i + 1]]`, sorted, each
    once. `rate` is in bytes a second, a moving average. Only subscribers that are online belong here: others cost
    nothing.
    """

    subscribers: tuple[str, ...]
    home: Ints
    keys: tuple[str, ...]
    rate: Floats
    first: Ints
    key: Ints

    @classmethod
    def of(
        cls,
        brokers: Sequence[str],
        subscribers: Mapping[str, tuple[str, Collection[str]]],
        rates: Mapping[str, float],
    ) -> Self:
        """From each subscriber's home and keys, by name. Raises SnapshotError where the facts contradict."""
        at = {name: number for number, name in enumerate(brokers)}
        names, keys = tuple(sorted(subscribers)), tuple(sorted(rates))
        index = {name: number for number, name in enumerate(keys)}
        home, flat, first = [], [], [0]
        for name in names:
            broker, wanted = subscribers[name]
            if broker not in at:
                raise SnapshotError(f"snapshot: the home of subscriber {name!r} is {broker!r}, which is not a broker")
            unknown = sorted(key for key in wanted if key not in index)
            if unknown:
                raise SnapshotError(f"snapshot: subscriber {name!r} has the subscription {unknown[0]!r} without a rate")
            home.append(at[broker])
            flat += sorted(index[key] for key in wanted)
            first.append(len(flat))
        return cls.among(
            subscribers=names,
            home=np.array(home, dtype=np.int64),
            keys=keys,
            rate=np.array([rates[key] for key in keys], dtype=np.float64),
            first=np.array(first, dtype=np.int64),
            key=np.array(flat, dtype=np.int64),
        )

    @classmethod
    def among(
        cls, *, subscribers: tuple[str, ...], home: Ints, keys: tuple[str, ...], rate: Floats, first: Ints, key: Ints
    ) -> Self:
        """From arrays of the shape that the class describes; they are copied. Raises SnapshotError."""
        wrong = np.flatnonzero(~((rate >= 0) & (rate < MOST_BYTES_PER_S)))
        if len(wrong):
            at = int(wrong[0])
            raise SnapshotError(
                f"snapshot: subscription {keys[at]!r} has {rate[at]} bytes a second;"
                f" expected 0 or more, and less than {MOST_BYTES_PER_S:g}"
            )
        owner = np.repeat(np.arange(len(subscribers)), np.diff(first))
        again = np.flatnonzero((owner[1:] == owner[:-1]) & (key[1:] <= key[:-1]))
        if len(again):
            at = int(again[0])
            raise SnapshotError(
                f"snapshot: subscriber {subscribers[owner[at]]!r} has the subscription {keys[key[at + 1]]!r} twice"
            )
        # No load, wherever subscribers are, is more than all subscriptions pulled once for each of them.
        _, exponent = math.frexp(2.0 * float(rate[key].sum()))
        grain = math.ldexp(1.0, max(exponent - _EXACT_BITS, _FINEST))
        exact = np.rint(rate / grain) * grain
        return cls(
            subscribers,
            _fixed(home.astype(np.int64)),
            keys,
            _fixed(exact),
            _fixed(first.astype(np.int64)),
            _fixed(key.astype(np.int64)),
        )

    @property
    def owner(self) -> Ints:
        """The subscriber of every entry of `key`."""
        return np.repeat(np.arange(len(self.subscribers)), np.diff(self.first))

    def weights(self) -> Floats:
        """u_i of Algorithm 1: what is sent to each subscriber, in bytes a second."""
        return np.bincount(self.owner, self.rate[self.key], len(self.subscribers)).astype(np.float64)

    def counts(self, brokers: int, without: Bools | None = None) -> Ints:
        """n_jk: how many subscribers of each broker (rows) have each key (columns); those `without` do not count."""
        flat = self.home[self.owner] * len(self.keys) + self.key
        if without is not None:
            flat = flat[~without[self.owner]]
        return np.bincount(flat, minlength=brokers * len(self.keys)).reshape(brokers, len(self.keys))

    def loads(self, brokers: int) -> Floats:
        """F_j of every broker, in bytes a second (equation 5)."""
        return loads_of(self.counts(brokers), self.rate)


def loads_of(counts: Ints, rate: Floats) -> Floats:
    """Equation 5 from n_jk and lambda_k."""
    return np.asarray((counts + (counts > 0)) @ rate)


def loads_plain(homes: Homes, brokers: int) -> list[float]:
    """The same as `Homes.loads`, as the paper writes it: what tests compare with."""
    found = []
    for broker in range(brokers):
        at_home = [at for at in range(len(homes.subscribers)) if homes.home[at] == broker]
        total = 0.0
        for number, rate in enumerate(homes.rate.tolist()):
            have = sum(number in homes.key[homes.first[at] : homes.first[at + 1]] for at in at_home)
            total += (1 + have) * rate if have else 0.0
        found.append(total)
    return found


def cov_of(loads: Floats) -> float:
    """Equation 6: the standard deviation over the mean; 0 where there is no load, or nobody to compare with."""
    mean = float(loads.mean()) if len(loads) else 0.0
    return float(loads.std()) / mean if mean > 0.0 else 0.0


def _fixed(values: _Array) -> _Array:
    values.flags.writeable = False
    return values
