"""Policies `bad-ldm`, `bad-sdm`, `bad-shuffle` (BAD, section 5, Algorithm 1): homes of subscribers by load.

`bad-ldm` and `bad-sdm` are lines 5 to 25: while cov > alpha and the mean load > beta, one subscriber leaves the broker
that carries most, for the one that carries least (ldm), or for the one below the mean that shares most with it (sdm).
`bad-shuffle` is all of it: when cov > gamma and the mean > theta, every subscriber gets a home anew, the heaviest
first, each at the broker that carries least so far; then cov is computed again, and lines 5 to 25 follow by the
`scheme` that is set.

What the paper says in words only, or not at all:

- A migration is valid if the destination's load after it does not exceed the source's before it. Line 17 compares loads
  without it. Subscribers are tried by decreasing load; when none of those of the heaviest broker is valid, it ends.
- As section 5.2 promises, every migration lowers the larger of the two loads, or leaves it and lowers the other one.
  One that is valid and does neither (two brokers would change roles, or nothing is sent to this subscriber) is not
  made: without this, Algorithm 1 does not come to an end.
- Equal loads of brokers are decided by name: the first is the heaviest, or the lightest. Equal subscribers go by name.
- sdm: among brokers that share equally much the lightest is taken. While cov > 0 some broker is below the mean. If it
  is not valid there, the next subscriber is tried, not the next broker.
- A subscriber that was moved twice is moved once in the plan, and not at all if it came back.
- A shuffle after which cov were not lower is not made. Subscribers to whom nothing is sent come last in a shuffle, and
  go where the fewest are: by load all of them would go to one broker, which they overwhelm when they subscribe.
- Brokers that do not report are neither sources nor destinations, do not count in the mean, and keep their subscribers.
  Subscribers of a broker that is being drained leave it in any case, by the shuffle's rule, before anything else.

Promised: a plan gives nobody a home that is silent or being drained; without draining and without a shuffle the largest
load never grows; equal snapshots give equal plans.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.homes import Homes
from nearcast.domain.plan import HomeStep, Plan
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.bad_spread import Spread
from nearcast.policies.settings import Balancing, Settings

LDM, SDM, SHUFFLE = "bad-ldm", "bad-sdm", "bad-shuffle"

SHUFFLED = "shuffle"
"""How a plan's reason begins that says that there was one."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

Migration = tuple[list[int], int]
"""The subscribers that leave the heaviest broker, and where they go."""

Scheme = Callable[[Spread, int], Migration | None]
"""From what is spread how, and the heaviest broker, to a valid migration; None when there is none."""

_FIRST_LOOK, _LOOK_FACTOR = 4, 4  # the heaviest is mostly valid; only in the end many are looked at


Policy = Callable[[Snapshot, Settings, float], Plan]


def policy_of(name: str, scheme_of: Callable[[Balancing], Scheme], *, shuffles: bool = False) -> Policy:
    """A policy of Algorithm 1 by its name, its scheme of migration, and whether it shuffles."""

    def balance(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
        homes = snapshot.homes
        if homes is None or not homes.subscribers:
            return Plan(name, now_s, reasons=("no subscriber has a home here: there is nothing to balance",))
        if not snapshot.usable.any():
            return Plan(name, now_s, reasons=("no broker reports that is not being drained",))
        why, spread, reasons = _balanced(snapshot, homes, settings.balancing, scheme_of(settings.balancing), shuffles)
        steps = _steps(snapshot.brokers, homes, spread, why)
        return Plan(name, now_s, reasons=tuple(reasons), homes=steps)

    return balance


def _balanced(
    snapshot: Snapshot, homes: Homes, settings: Balancing, scheme: Scheme, shuffles: bool
) -> tuple[dict[int, str], Spread, list[str]]:
    """By subscriber, why it was moved last; homes as they should be; and what there is to say about it."""
    spread = Spread(homes, snapshot.usable)
    reasons = []
    why: dict[int, str] = {}
    before = _shown(spread)
    for subscriber in spread.ranked[snapshot.draining[homes.home[spread.ranked]]].tolist():
        why[subscriber] = f"{snapshot.brokers[homes.home[subscriber]]} is being drained"
        spread.move(subscriber, spread.receiver(subscriber))
    if shuffles and spread.cov > settings.gamma and spread.mean > settings.theta_bytes_per_s:
        dealt = shuffled(homes, snapshot.usable, spread)
        if dealt.cov < spread.cov:
            told = f"{SHUFFLED}: cov was {spread.cov:.3f}, above {settings.gamma:g}"
            why |= dict.fromkeys(np.flatnonzero(dealt.home != spread.home).tolist(), told)
            spread = dealt
            reasons.append(told)
        else:
            reasons.append(f"no shuffle: cov would be {dealt.cov:.3f}, it is {spread.cov:.3f}")
    why |= migrate(spread, scheme, settings, snapshot.brokers)
    if spread.cov > settings.alpha and spread.mean > settings.beta_bytes_per_s:
        reasons.append(f"cov stays at {spread.cov:.3f}, above {settings.alpha:g}: no migration is valid any more")
    if moved := int((spread.home != homes.home).sum()):
        reasons.append(f"{moved} subscribers: {before} before, {_shown(spread)} after")
    return why, spread, reasons


def _steps(brokers: tuple[str, ...], homes: Homes, spread: Spread, why: dict[int, str]) -> tuple[HomeStep, ...]:
    return tuple(
        HomeStep(homes.subscribers[at], brokers[spread.home[at]], brokers[homes.home[at]], why[at])
        for at in np.flatnonzero(spread.home != homes.home).tolist()
    )


def migrate(spread: Spread, scheme: Scheme, settings: Balancing, brokers: tuple[str, ...]) -> dict[int, str]:
    """Lines 6 to 25, on `spread` itself. By subscriber, why it was moved last."""
    why: dict[int, str] = {}
    while spread.cov > settings.alpha and spread.mean > settings.beta_bytes_per_s:
        source = spread.heaviest
        found = scheme(spread, source)
        if found is None:
            break
        leaving, to = found
        told = (
            f"{brokers[source]} carried the most, {_rate(spread.load[source])},"
            f" where the mean was {_rate(spread.mean)}; {brokers[to]} carried {_rate(spread.load[to])}"
        )
        for subscriber in leaving:
            spread.move(subscriber, to)
            why[subscriber] = told
    return why


def shuffled(homes: Homes, usable: Bools, now: Spread) -> Spread:
    """GSH (section 5.3): everybody anew, the heaviest first, to the broker that carries least so far."""
    dealing = usable[now.home]
    dealt = Spread(homes, usable, taken=dealing)
    for subscriber in dealt.ranked[dealing[dealt.ranked]].tolist():
        dealt.give(subscriber, dealt.receiver(subscriber))
    return dealt


def least_loaded(spread: Spread, source: int) -> Migration | None:
    """LDM: the heaviest subscriber that may go to the lightest broker."""
    to = np.array([spread.lightest])
    return _first_valid(spread, source, lambda some: np.zeros(len(some), dtype=np.int64), to)


def most_similar(spread: Spread, source: int) -> Migration | None:
    """SDM: the heaviest subscriber that may go to the broker, of those below the mean, that shares most with it."""
    load = spread.load[spread.usable]
    below = spread.usable[load < spread.mean]
    if not len(below):
        return None
    below = below[np.argsort(spread.load[below], kind="stable")]  # of equally similar ones argmax takes the first
    return _first_valid(spread, source, lambda some: spread.shared(some, below).argmax(axis=0), below)


def _first_valid(spread: Spread, source: int, choose: Callable[[Ints], Ints], receivers: Ints) -> Migration | None:
    start, size = 0, _FIRST_LOOK
    while len(some := spread.some_at_home(source, start, start + size)):
        which = choose(some)
        shared = spread.shared(some, receivers)[which, np.arange(len(some))]
        to = receivers[which]
        weight = spread.weight[some]
        valid = better(
            spread.load[source],
            spread.load[to],
            spread.load[source] - weight - spread.alone(some),
            spread.load[to] + 2.0 * weight - shared,
        )
        if valid.any():
            at = int(valid.argmax())
            return [int(some[at])], int(to[at])
        start, size = start + size, size * _LOOK_FACTOR
    return None


def better(source: float, to: Floats, source_after: Floats, to_after: Floats) -> Bools:
    """Either the larger of the two loads is lowered, or it stays and the other one is; so it is valid, too."""
    larger, smaller = np.maximum(source_after, to_after), np.minimum(source_after, to_after)
    return np.asarray((larger < source) | ((larger == source) & (smaller < to)))


def _shown(spread: Spread) -> str:
    return f"cov {spread.cov:.3f}, largest load {_rate(spread.load[spread.heaviest])}"


def _rate(bytes_per_s: float) -> str:
    for unit, size in (("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.3g} {unit}"
    return f"{bytes_per_s:.3g} B/s"


_SCHEMES: dict[str, Scheme] = {"ldm": least_loaded, "sdm": most_similar}

bad_ldm = policy_of(LDM, lambda _: least_loaded)
bad_sdm = policy_of(SDM, lambda _: most_similar)
bad_shuffle = policy_of(SHUFFLE, lambda settings: _SCHEMES[settings.scheme], shuffles=True)
