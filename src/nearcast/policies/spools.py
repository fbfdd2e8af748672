"""What servers spool and process while homes are being given (RELOC, Algorithm 1), followed client by client."""

from __future__ import annotations

import numpy as np

from nearcast.domain.area import NOWHERE, Area

_SLACK = 1.0 + 1e-9  # an error of rounding is not an overload


class Spools:
    """`home` is as far as it has come. A topic is at a server (T_l) while one of its publishers is placed there with
    it.
    """

    __slots__ = (
        "_first",
        "_placed",
        "_publishers",
        "_publishes",
        "_topic",
        "_topics",
        "area",
        "home",
        "load",
        "storage",
        "usage",
    )

    def __init__(self, area: Area) -> None:
        self.area = area
        self.home = np.full(len(area.clients), NOWHERE)
        self.storage = np.zeros(len(area.servers))
        self.load = np.zeros(len(area.servers))
        self.usage = np.zeros(len(area.servers))
        # Plain lists: what follows asks for one number at a time.
        self._first, self._topic = area.first.tolist(), area.topic.tolist()
        self._publishes = area.publishes.tolist()
        self._topics = len(area.spool)
        self._placed = [False] * len(self._topic)
        self._publishers: dict[int, int] = {}

    def keeps_all(self, server: int) -> bool:
        """theta = 1."""
        return bool(self.usage[server] <= _SLACK)

    def place(self, entry: int, server: int) -> None:
        """The topic of one of a client's entries, if it publishes there, comes to its home."""
        if self._publishes[entry] and not self._placed[entry]:
            self._placed[entry] = True
            self._count(entry, server, 1)

    def move(self, client: int, server: int) -> None:
        """With every topic that it publishes; where it leaves the last publisher of one the topic goes."""
        was = int(self.home[client])
        for entry in range(self._first[client], self._first[client + 1]):
            if self._placed[entry]:
                self._count(entry, was, -1)
                self._placed[entry] = False
            self.place(entry, server)
        self.home[client] = server

    def _count(self, entry: int, server: int, change: int) -> None:
        topic = self._topic[entry]
        key = server * self._topics + topic
        count = self._publishers.get(key, 0) + change
        self._publishers[key] = count
        spool = float(self.area.spool[topic])
        self.load[server] += change * spool
        if count == 0 or (count == 1 and change == 1):
            self.storage[server] += change * spool
        self.usage[server] = max(
            self.storage[server] / self.area.storage[server], self.load[server] / self.area.compute[server]
        )
