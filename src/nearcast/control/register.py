"""Who uses a topic at one broker, as far as its agent was told: each entry is a lease (rule 7)."""

from __future__ import annotations

import math
from itertools import takewhile


class Entry:
    __slots__ = ("client", "epoch", "home", "publisher", "until_s")

    def __init__(self, client: str, publisher: int, epoch: int, until_s: float, home: str) -> None:
        self.client = client
        self.publisher = publisher
        self.epoch = epoch
        self.until_s = until_s
        self.home = home  # as it says; "" where nobody told it


class Register:
    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[tuple[str, int], Entry] = {}  # in the order in which they run out: all leases are as long

    def renew(self, client: str, publisher: int, epoch: int, until_s: float, home: str = "") -> None:
        self.entries.pop((client, publisher), None)
        self.entries[client, publisher] = Entry(client, publisher, epoch, until_s, home)

    def leave(self, client: str, publisher: int) -> None:
        self.entries.pop((client, publisher), None)

    def expire(self, now: float) -> list[Entry]:
        """Removes and returns the entries whose lease is out."""
        out = list(takewhile(lambda entry: now >= entry.until_s, self.entries.values()))
        for entry in out:
            del self.entries[entry.client, entry.publisher]
        return out

    def below(self, epoch: int) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.epoch < epoch]

    def next_s(self) -> float:
        first = next(iter(self.entries.values()), None)
        return math.inf if first is None else first.until_s
