"""The delay Y of RELOC, followed from one change of a home to the next: what any move of a client would do to it, at
every server at once, exactly.

With d^H and d^S the ways to homes and between them, theta_l the part that server l keeps, and one publication of each
publisher of a topic, equation 7 times I is

    sum over clients m of   weight_m d^H_m  +  sum over servers l of   2 d^C P_l (1 - theta_l) + theta_l W_l

where P_l publications are made at l, and W_l is what their ways to the homes of all subscribers are together. With
G_nl, the shares 1 / |S_i| of what is published on topic n at l, and Q_nl, the ways from l to all subscribers of n: W_l
= sum over n of G_nl Q_nl. One client changes few rows of these.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.places import Floats, Ints
from nearcast.predict.homed import Pattern, load_of, storage_of, theta_of

Amount = TypeVar("Amount", Floats, float)


class Ways:
    """`home` is as far as it has come; everybody has one."""

    def __init__(self, area: Area, home: Ints, pattern: Pattern | None = None) -> None:
        pattern = pattern or Pattern.of(area)
        servers, topics = len(area.servers), len(area.spool)
        self.area, self.home = area, home.copy()
        self._between_s = area.between_s()
        self._weight = pattern.weights(len(area.clients), topics)
        self.publications = max(1, len(pattern.client))
        self._share = np.zeros(len(area.topic))
        counted = np.searchsorted(area.owner * topics + area.topic, pattern.client * topics + pattern.topic)
        self._share[counted] = pattern.share
        owner, topic = area.owner, area.topic
        there = home[owner]
        flat = topic * servers + there
        cells = servers * topics
        self._publishers = np.bincount(flat[area.publishes], minlength=cells).reshape(topics, servers)
        # Of nothing at all numpy would count in whole numbers.
        self._shares = np.bincount(flat, self._share, cells).astype(np.float64).reshape(topics, servers)
        hearers = np.bincount(flat[area.subscribes], minlength=cells).reshape(topics, servers)
        self._sums_s = hearers.astype(np.float64) @ self._between_s
        self._made = np.bincount(there[self._share > 0.0], minlength=servers).astype(np.float64)
        self._ways_s = (self._shares * self._sums_s).sum(axis=0)
        self._storage, self._load = storage_of(area, home), load_of(area, home)
        self._theta = theta_of(self._storage, self._load, area.storage, area.compute)

    def gains(self, client: int) -> Floats:
        """By how much Y times I would fall if the client went to each server; 0 where it is."""
        area, here = self.area, int(self.home[client])
        mine = slice(area.first[client], area.first[client + 1])
        topic, share = area.topic[mine], self._share[mine]
        published, heard = topic[area.publishes[mine]], topic[area.subscribes[mine]]
        share_published = share[area.publishes[mine]]
        both = area.subscribes[mine][area.publishes[mine]]
        from_here_s = self._between_s[here]
        way_s = self._to_servers(client)
        after = self._weight[client] * (way_s - way_s[here])

        # Others send to it at its new home. What it publishes itself is not among what it hears.
        shares = self._shares[heard].sum(axis=0)
        shares[here] -= share_published[both].sum()
        busy = np.flatnonzero(shares)
        kept = self._theta[busy] * shares[busy]
        after += kept @ self._between_s[busy] - float(kept @ from_here_s[busy])

        # Its home makes less, and its new one more.
        spool = area.spool[published]
        made, asked = float((share_published > 0.0).sum()), float(spool.sum())
        alone = float(spool[self._publishers[published, here] == 1].sum())
        theta = self._theta_of(self._storage[here] - alone, self._load[here] - asked, here)
        ways_s = float(self._ways_s[here] - share_published @ self._sums_s[published, here])
        before = float(self._made[here]), float(self._theta[here]), float(self._ways_s[here])
        after += self._cost(before[0] - made, theta, ways_s) - self._cost(*before)
        # Above, what others here send to its new home was counted with the old theta.
        after += (theta - self._theta[here]) * shares[here] * from_here_s
        added = ((self._publishers[published] == 0) * spool[:, None]).sum(axis=0)
        thetas = theta_of(self._storage + added, self._load + asked, area.storage, area.compute)
        own = share_published @ self._sums_s[published] - share_published[both].sum() * from_here_s
        others = self._ways_s - shares * from_here_s
        after += self._cost(self._made + made, thetas, others + own) - self._cost(self._made, self._theta, self._ways_s)
        after += self._theta * shares * from_here_s
        after[here] = 0.0
        return np.asarray(-after)

    def move(self, client: int, to: int) -> None:
        area, here = self.area, int(self.home[client])
        if to == here:
            return
        mine = slice(area.first[client], area.first[client + 1])
        topic, share = area.topic[mine], self._share[mine]
        published, heard = topic[area.publishes[mine]], topic[area.subscribes[mine]]
        changed = np.unique(topic)
        self._ways_s -= (self._shares[changed] * self._sums_s[changed]).sum(axis=0)
        self._shares[topic, here] -= share
        self._shares[topic, to] += share
        self._sums_s[heard] += self._between_s[to] - self._between_s[here]
        self._ways_s += (self._shares[changed] * self._sums_s[changed]).sum(axis=0)
        made = float((share > 0.0).sum())
        self._made[here] -= made
        self._made[to] += made
        spool = area.spool[published]
        self._storage[here] -= spool[self._publishers[published, here] == 1].sum()
        self._storage[to] += spool[self._publishers[published, to] == 0].sum()
        self._publishers[published, here] -= 1
        self._publishers[published, to] += 1
        self._load[here] -= spool.sum()
        self._load[to] += spool.sum()
        self.home[client] = to
        for server in (here, to):
            self._theta[server] = self._theta_of(self._storage[server], self._load[server], server)

    def total_s(self) -> float:
        """Y times I."""
        ways = float(self._weight @ self.area.home_s(self.home))
        return ways + float(self._cost(self._made, self._theta, self._ways_s).sum())

    def _to_servers(self, client: int) -> Floats:
        area = self.area
        apart = area.servers.vec - area.at.vec[client]
        return np.asarray(np.linalg.norm(apart, axis=1) + area.servers.height + area.at.height[client])

    def _theta_of(self, storage: float, load: float, server: int) -> float:
        # What is left of a sum may be a rounding error below nothing.
        most = max(storage / self.area.storage[server], load / self.area.compute[server], 1.0)
        return 1.0 / float(most)

    def _cost(self, made: Amount, theta: Amount, ways_s: Amount) -> Amount:
        return 2.0 * self.area.cloud_s * made * (1.0 - theta) + theta * ways_s
