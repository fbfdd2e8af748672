"""Which topics a server delegates to the cloud, where it lacks storage or compute for all (RELOC, section 5.1).

The paper's theta splits topics as if they could be: the part that a server keeps. Real processors are kept or left
whole. A server delegates its topics **in the order of the storage that each frees per publication that goes**, u_n over
the number of its publishers there, the largest first (ties: the larger spool, then the first by name), until the rest
fits both limits. So what is delegated is what few publish and much is stored for.

A server may then delegate more than 1 - theta, up to one topic's worth, or fewer publications, where large spools have
few publishers. Both shares are told side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.places import Bools, Floats, Ints
from nearcast.predict.homed import Delay, Pattern, delay_of, delays_of


@dataclass(frozen=True, slots=True, eq=False)
class Delegated:
    """Server `server[i]` delegates topic `topic[i]`; both ascend. `publications` of every server are those of its
    publishers, each once, and `left` those among them that go to the cloud.
    """

    server: Ints
    topic: Ints
    publications: Floats
    left: Floats

    @property
    def share(self) -> float:
        """Of all publications, those that the cloud processes."""
        return float(self.left.sum() / self.publications.sum()) if self.publications.sum() else 0.0

    def of(self, server: Ints, topic: Ints, topics: int) -> Bools:
        """Whether each pair is delegated."""
        return np.isin(server * topics + topic, self.server * topics + self.topic)


def delegated_of(area: Area, home: Ints) -> Delegated:
    """By these homes; every client must have one."""
    topics, servers = len(area.spool), len(area.servers)
    there, publishers = np.unique(
        home[area.owner[area.publishes]] * topics + area.topic[area.publishes], return_counts=True
    )
    server, topic = np.divmod(there, max(1, topics))
    spool = area.spool[topic]
    order = np.lexsort((topic, -spool, -spool / publishers, server))
    server, topic, spool, publishers = server[order], topic[order], spool[order], publishers[order]
    begin: Ints = np.asarray(
        np.searchsorted(server, server), dtype=np.int64
    )  # where the topics of each one's server begin
    rest_storage = _rest(spool, server, begin, servers)
    rest_load = _rest(spool * publishers, server, begin, servers)
    # What is left with this topic and those behind it: while that does not fit, the topic goes.
    goes = (rest_storage > area.storage[server]) | (rest_load > area.compute[server])
    goes &= spool > 0.0  # one without a processor costs nothing
    rank = np.lexsort((topic[goes], server[goes]))
    return Delegated(
        server[goes][rank],
        topic[goes][rank],
        np.bincount(server, publishers, servers).astype(np.float64),
        np.bincount(server[goes], publishers[goes], servers).astype(np.float64),
    )


def _rest(value: Floats, server: Ints, begin: Ints, servers: int) -> Floats:
    """Of each server's topics, what this one and those after it have together."""
    before = np.concatenate(([0.0], np.cumsum(value)))
    total = np.bincount(server, value, servers)
    return np.asarray(total[server] - (before[:-1] - before[begin]))


def delay_by_topics(area: Area, home: Ints, pattern: Pattern | None = None) -> tuple[Delay, Delegated]:
    """As `delay_of`, where whole topics are delegated; `theta` is still the model's."""
    pattern = pattern or Pattern.of(area)
    split, whole = delay_of(area, home, pattern), delegated_of(area, home)
    kept = np.where(whole.of(home[pattern.client], pattern.topic, len(area.spool)), 0.0, 1.0)
    first_s, second_s = delays_of(area, pattern, home, kept, split.home_s)
    y1_s, y2_s = (float(each.mean()) if len(each) else 0.0 for each in (first_s, second_s))
    sums = first_s + second_s, y1_s + y2_s, y1_s, y2_s
    return Delay(*sums, split.storage, split.load, split.theta, split.home_s), whole
