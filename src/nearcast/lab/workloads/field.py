"""The field of RELOC, section 7: clients around the middles of their topics, servers on a grid, who follows whom.

A topic is a follower with its followees, all of whom publish and subscribe. The members of a topic are Gaussian around
a point anywhere in the field; one that has several topics is where its first topic has it. Whoever would fall out of
the field is drawn again. Servers are on a grid, which is ours: the paper does not say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nearcast.domain.area import NOWHERE, Area
from nearcast.domain.errors import ConfigError
from nearcast.domain.load import BrokerReport
from nearcast.domain.places import Floats, Ints, Places, Spots
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import Snapshot

SIDE_KM = 25.0
MS_PER_KM = 0.1  # gamma
CLOUD_MS = 5.0  # d^C
MOST_MEMBERS = 21
MOST_TOPICS = 4  # of one client: fewer than 5
_FEWEST_MEMBERS = 2
_MEDIAN_MEMBERS, _SPREAD = 25.0, 1.0  # how many one follows: log-normal, as in the follower lists of a real network
_TAIL = 2.2  # of how many one is followed by: the exponent of its power law, as in social networks
_S_PER_KM = MS_PER_KM / 1e3

Following = Sequence[Ints]
"""Of each topic who is in it, by numbers."""


@dataclass(frozen=True, slots=True)
class Field:
    """The values of Table 2, and those that its experiments vary."""

    topics: int = 64
    servers: int = 16
    sigma_km: float = 5.0
    spool: float = 2.0  # p: messages of each client of a topic
    storage: float = 640.0  # A
    compute: float = 3200.0  # B
    shared: bool = True
    most_members: int = MOST_MEMBERS
    side_km: float = SIDE_KM


def drawn_area(field: Field, seed: int, following: Following | None = None) -> Area:
    """Nobody has a home yet. `following` in place of a graph that is drawn."""
    rng = np.random.default_rng((seed, 4))
    if following is None:
        members = drawn_following(field, rng)
    else:
        chosen = rng.permutation(len(following))
        members = limited([following[at] for at in chosen.tolist()], field)
        if len(members) < field.topics:
            raise ConfigError(
                f"the followers' file has {len(members)} topics of 2 to {field.most_members} members;"
                f" {field.topics} are asked for"
            )
    numbers, flat = np.unique(np.concatenate(members), return_inverse=True)
    topic = np.repeat(np.arange(len(members)), [len(each) for each in members])
    order = np.lexsort((topic, flat))
    owner, topic = flat[order], topic[order]
    first = np.searchsorted(owner, np.arange(len(numbers) + 1))
    middles = rng.uniform(0.0, field.side_km, (len(members), 2))
    at = _around(middles[topic[first[:-1]]], field, rng)
    servers = grid(field.servers, field.side_km)
    width = len(str(len(numbers) - 1))
    everybody = np.ones(len(topic), dtype=np.bool_)
    return Area(
        servers=_spots(servers),
        storage=np.full(field.servers, field.storage),
        compute=np.full(field.servers, field.compute),
        cloud_s=CLOUD_MS / 1e3,
        clients=tuple(f"c{number:0{width}}" for number in range(len(numbers))),
        at=_spots(at),
        home=np.full(len(numbers), NOWHERE),
        first=first,
        topic=topic,
        publishes=everybody,
        subscribes=everybody,
        spool=field.spool * np.bincount(topic, minlength=len(members)).astype(np.float64),
    )


def snapshot_of(area: Area) -> Snapshot:
    """As a policy sees it, and as a file has it."""
    brokers = tuple(f"s{number:0{len(str(len(area.servers)))}}" for number in range(len(area.servers)))
    topics = tuple(f"t{number:0{len(str(len(area.spool)))}}" for number in range(len(area.spool)))
    bare = Snapshot.of(
        [BrokerReport(name, 0.0, 0.0, math.inf) for name in brokers], {}, Ring(brokers), at_s=0.0, named=topics
    )
    nowhere = Spots(np.full((len(topics), area.servers.vec.shape[1]), np.nan), np.full(len(topics), np.nan))
    zero = np.zeros(len(topics))
    places = Places(area.servers, nowhere, nowhere, zero, zero, np.full(len(topics), np.inf))
    return replace(bare, places=places, area=area)


def grid(count: int, side_km: float) -> Floats:
    """As near to a square of squares as the number allows; the last row may be wider apart."""
    rows = max(1, round(math.sqrt(count)))
    sizes = np.full(rows, count // rows)
    sizes[: count % rows] += 1
    found = [
        ((column + 0.5) / size * side_km, (row + 0.5) / rows * side_km)
        for row, size in enumerate(sizes.tolist())
        for column in range(size)
    ]
    return np.array(found)


def drawn_following(field: Field, rng: np.random.Generator) -> list[Ints]:
    """A heavy-tailed graph: few follow many, few are followed by many; nobody is in more than MOST_TOPICS topics.

    `shared` False: no two topics have anybody in common.
    """
    sizes = np.zeros(field.topics, dtype=np.int64)
    while len(out := np.flatnonzero((sizes < _FEWEST_MEMBERS) | (sizes > field.most_members))):
        sizes[out] = rng.lognormal(math.log(_MEDIAN_MEMBERS), _SPREAD, len(out)).astype(np.int64)
    total = int(sizes.sum())
    if not field.shared:
        return list(np.split(np.arange(total), np.cumsum(sizes)[:-1]))
    # A client for every place that there is, at most so often as it may be in topics; the popular ones come more often.
    popularity = np.minimum(rng.zipf(_TAIL, total), MOST_TOPICS)
    places = np.repeat(np.arange(total), popularity)
    rng.shuffle(places)
    found, start = [], 0
    for size in sizes.tolist():
        chosen: dict[int, None] = {}
        while len(chosen) < size:
            chosen[int(places[start])] = None  # one that came twice is one member
            start += 1
        found.append(np.array(sorted(chosen)))
    return found


def limited(lines: Following, field: Field) -> list[Ints]:
    """Topics as the paper has them: of at most so many members, none of whom is in more than MOST_TOPICS; what is too
    large, or is left with fewer than two, is passed over.
    """
    times: dict[int, int] = {}
    most = MOST_TOPICS if field.shared else 1
    found: list[Ints] = []
    for line in lines:
        if len(line) > field.most_members:
            continue
        kept = [who for who in line.tolist() if times.get(who, 0) < most]
        if len(kept) < _FEWEST_MEMBERS:
            continue
        for who in kept:
            times[who] = times.get(who, 0) + 1
        found.append(np.array(sorted(kept)))
        if len(found) == field.topics:
            break
    return found


def read_followers(path: Path) -> list[Ints]:
    """From lines `follower, [followees...]`, as the paper has them, or a line `follower followee` per pair. Lines
    without a number, such as a heading, are passed over. ConfigError when there is nobody.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: followers cannot be read: {error}") from error
    following: dict[int, set[int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        found = [int(each) for each in re.findall(r"\d+", line)]
        if not found or line.lstrip().startswith(("%", "#")):
            continue
        if len(found) == 1:
            raise ConfigError(f"{path}, line {number}: {line!r} names nobody whom {found[0]} follows")
        following.setdefault(found[0], {found[0]}).update(found[1:])
    if not following:
        raise ConfigError(f"{path} has no line like 'follower, [followees...]' or 'follower followee'")
    return [np.array(sorted(members)) for _, members in sorted(following.items())]


def _around(middles: Floats, field: Field, rng: np.random.Generator) -> Floats:
    found = np.full(middles.shape, np.nan)
    out = np.arange(len(middles))
    while len(out):
        found[out] = rng.normal(middles[out], field.sigma_km)
        out = out[((found[out] < 0.0) | (found[out] > field.side_km)).any(axis=1)]
    return found


def _spots(km: Floats) -> Spots:
    return Spots(km * _S_PER_KM, np.zeros(len(km)))
