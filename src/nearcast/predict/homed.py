"""How late notifications come when every client has a home (RELOC, section 5, equations 1 to 10).

A message goes from its publisher to that one's home, is processed there, and its notification goes over the homes of
the subscribers to them. A server that lacks storage or compute for its topics delegates a part of them to the cloud,
which is far: `theta` is the part that it keeps. Publications are those of the paper: every publisher of a topic
publishes once, to all other subscribers of it. One whom nobody else hears is not delivered, and does not count.

Equations 8 and 9 of the paper carry one 1/I too many: here Y = Y1 + Y2, as its text has it.

Homes are an argument of all of this, so that what does not exist yet can be compared. Times are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.errors import SnapshotError
from nearcast.domain.places import Floats, Ints

_AT_ONCE = 1 << 22  # cells of a matrix of topics and servers


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """The publications: of client `client[i]` on topic `topic[i]`, to 1 / `share[i]` others (1 / |S_i|). Subscription j
    is of client `hearer[j]` to topic `heard[j]`.
    """

    client: Ints
    topic: Ints
    share: Floats
    hearer: Ints
    heard: Ints

    @staticmethod
    def of(area: Area) -> Pattern:
        owner = area.owner
        hearers = np.bincount(area.topic[area.subscribes], minlength=len(area.spool))
        others = hearers[area.topic] - area.subscribes
        counts = area.publishes & (others > 0)
        return Pattern(
            owner[counts],
            area.topic[counts],
            1.0 / others[counts],
            owner[area.subscribes],
            area.topic[area.subscribes],
        )

    def weights(self, clients: int, topics: int) -> Floats:
        """How often each client's way to its home is gone when every publication has been delivered: Y1 is the mean
        over publications of these ways.
        """
        shares = np.bincount(self.topic, self.share, topics)
        own = np.zeros(len(self.hearer))
        mine = _positions(self.hearer, self.heard, self.client, self.topic, topics)
        own[mine >= 0] = self.share[mine[mine >= 0]]
        heard = np.bincount(self.hearer, shares[self.heard] - own, clients)
        return np.asarray(np.bincount(self.client, minlength=clients) + heard)


def _positions(client: Ints, topic: Ints, among_client: Ints, among_topic: Ints, topics: int) -> Ints:
    """Where each pair is among others, which are sorted; -1 where it is not."""
    wanted, there = client * topics + topic, among_client * topics + among_topic
    at = np.searchsorted(there, wanted)
    at[at == len(there)] = 0
    return np.where(there[at] == wanted, at, -1) if len(there) else np.full(len(wanted), -1)


@dataclass(frozen=True, slots=True, eq=False)
class Delay:
    """`delay_s` is D_i of every publication. `storage`, `load` (v_l) and `theta` are of every server, `home_s` (d^H) of
    every client.
    """

    delay_s: Floats
    y_s: float
    y1_s: float
    y2_s: float
    storage: Floats
    load: Floats
    theta: Floats
    home_s: Floats

    @property
    def delegated(self) -> float:
        """The share of what servers would spool that is left to the cloud."""
        asked = float(self.storage.sum())
        return float(((1.0 - self.theta) * self.storage).sum()) / asked if asked else 0.0


def storage_of(area: Area, home: Ints) -> Floats:
    """The messages that each server would spool: u_n of every topic that somebody publishes from there (T_l)."""
    topics = len(area.spool)
    publisher = home[area.owner[area.publishes]]
    there = np.unique(publisher[publisher >= 0] * topics + area.topic[area.publishes][publisher >= 0])
    server, topic = np.divmod(there, topics) if topics else (there, there)
    return np.bincount(server, area.spool[topic], len(area.servers)).astype(np.float64)


def load_of(area: Area, home: Ints) -> Floats:
    """v_l (equation 1): the messages that each server looks at when each of its publishers publishes once."""
    publisher = home[area.owner[area.publishes]]
    some = publisher >= 0
    spool = area.spool[area.topic[area.publishes]]
    return np.bincount(publisher[some], spool[some], len(area.servers)).astype(np.float64)


def theta_of(storage: Floats, load: Floats, most_storage: Floats, most_load: Floats) -> Floats:
    """theta_l (equation 2): the part of its topics that each server keeps."""
    with np.errstate(divide="ignore"):
        return np.minimum(np.minimum(most_storage / storage, most_load / load), 1.0)


def delays_of(area: Area, pattern: Pattern, home: Ints, kept: Floats, home_s: Floats) -> tuple[Floats, Floats]:
    """D_i (equation 6) in two parts: the ways between clients and homes, and those between homes or by the cloud.

    `kept` is the part of each publication that is processed at home: theta of the server there.
    """
    topics = len(area.spool)
    ways_s = np.bincount(pattern.heard, home_s[pattern.hearer], topics)[pattern.topic]
    own = _positions(pattern.client, pattern.topic, pattern.hearer, pattern.heard, topics) >= 0
    server = home[pattern.client]
    first_s = home_s[pattern.client] + pattern.share * (ways_s - np.where(own, home_s[pattern.client], 0.0))
    between_s = pattern.share * _sums_between(area, pattern, home, server)
    second_s = 2.0 * area.cloud_s * (1.0 - kept) + kept * between_s
    return first_s, second_s


def _sums_between(area: Area, pattern: Pattern, home: Ints, server: Ints) -> Floats:
    """From the server of each publication to those of all subscribers, together; the publisher itself is at no way."""
    found = np.empty(len(server))
    between_s, servers = area.between_s(), len(area.servers)
    size = max(1, min(len(area.spool), _AT_ONCE // max(1, servers)))
    by_topic, heard = np.argsort(pattern.topic, kind="stable"), np.argsort(pattern.heard, kind="stable")
    for start in range(0, len(area.spool), size):
        rows = np.searchsorted(pattern.heard[heard], (start, start + size))
        some = heard[slice(*rows)]
        flat = (pattern.heard[some] - start) * servers + home[pattern.hearer[some]]
        counts = np.bincount(flat, minlength=size * servers).reshape(size, servers)
        sums = counts.astype(np.float64) @ between_s  # of whole numbers numpy would make no use of a fast library
        mine = by_topic[slice(*np.searchsorted(pattern.topic[by_topic], (start, start + size)))]
        found[mine] = sums[pattern.topic[mine] - start, server[mine]]
    return found


def delay_of(area: Area, home: Ints, pattern: Pattern | None = None) -> Delay:
    """Y, Y1 and Y2 (equations 7 to 9), with all that they come from, if these were the homes; 0 without publications.

    Raises SnapshotError where a client has no home, or one that has not said where it is.
    """
    pattern = pattern or Pattern.of(area)
    home_s = area.home_s(home)
    if np.isnan(home_s).any():
        at = int(np.isnan(home_s).argmax())
        why = "has no home" if home[at] < 0 else "has a home that has not said where it is"
        raise SnapshotError(f"snapshot: client {area.clients[at]!r} {why}: there is no delay to tell")
    storage, load = storage_of(area, home), load_of(area, home)
    theta = theta_of(storage, load, area.storage, area.compute)
    first_s, second_s = delays_of(area, pattern, home, theta[home[pattern.client]], home_s)
    y1_s, y2_s = (float(each.mean()) if len(each) else 0.0 for each in (first_s, second_s))
    return Delay(first_s + second_s, y1_s + y2_s, y1_s, y2_s, storage, load, theta, home_s)


def delay_plain(area: Area, home: Ints) -> tuple[float, float]:
    """Y1 and Y2 as the paper writes them, publication by publication: what tests compare with."""
    storage, load = storage_of(area, home), load_of(area, home)
    first, second, count = 0.0, 0.0, 0
    members = list(zip(area.owner.tolist(), area.topic.tolist(), area.publishes, area.subscribes, strict=True))
    way_s = area.at.to(area.servers)
    between_s = area.between_s()
    for publisher, topic, publishes, _ in members:
        hearers = [who for who, what, _, hears in members if hears and what == topic and who != publisher]
        if not publishes or not hearers:
            continue
        count += 1
        here = home[publisher]
        theta = min(1.0, *(most / used for most, used in _limits(area, storage, load, here) if used > 0.0), 1.0)
        for who in hearers:
            there = home[who]
            first += (way_s[publisher, here] + way_s[who, there]) / len(hearers)
            second += (2.0 * area.cloud_s * (1.0 - theta) + theta * between_s[here, there]) / len(hearers)
    return (first / count, second / count) if count else (0.0, 0.0)


def _limits(area: Area, storage: Floats, load: Floats, server: int) -> tuple[tuple[float, float], tuple[float, float]]:
    return (area.storage[server], storage[server]), (area.compute[server], load[server])
