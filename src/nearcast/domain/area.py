"""Clients of topics that are processed at their homes: where they are, what they publish and hear, and what servers
have to spool and process with (RELOC, section 5.1).

Servers are the snapshot's brokers, and are where `Places` has them: distances are times, one way, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nearcast.domain.errors import SnapshotError
from nearcast.domain.places import Bools, Floats, Ints, Spots

NOWHERE = -1
"""The home of a client that has none yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """Clients are sorted by name. Client m has the topics `topic[first[m]:first[m + 1]]`, sorted, each once, and of
    each entry it is said whether it publishes there, subscribes, or both. Servers and topics are indices of the
    snapshot's.

    `spool` (u_n) is how many messages the processor of a topic keeps, 0 for one without; `storage` (A_l) how many a
    server may spool, `compute` (B_l) how many it may look at when each of its publishers publishes once; infinite where
    nobody said. `cloud_s` (d^C) is the way from any server to the cloud. A server that has not said where it is is
    nobody's home: its spot is NaN.
    """

    servers: Spots
    storage: Floats
    compute: Floats
    cloud_s: float
    clients: tuple[str, ...]
    at: Spots
    home: Ints
    first: Ints
    topic: Ints
    publishes: Bools
    subscribes: Bools
    spool: Floats

    def __post_init__(self) -> None:
        _must_all(self.storage > 0.0, "the storage of server number {} is not more than 0")
        _must_all(self.compute > 0.0, "the compute of server number {} is not more than 0")
        _must_all((self.spool >= 0.0) & (self.spool < np.inf), "the spool of topic number {} is not 0 or more")
        if not 0.0 <= self.cloud_s < np.inf:
            raise SnapshotError(f"snapshot: area.cloud_s is {self.cloud_s}; expected 0 or more seconds")
        if len(self.at) and self.at.vec.shape[1] != self.servers.vec.shape[1]:
            raise SnapshotError(
                f"snapshot: clients are in a space of {self.at.vec.shape[1]} dimensions,"
                f" servers in one of {self.servers.vec.shape[1]}"
            )
        known = np.isfinite(self.at.vec).all(axis=1) & np.isfinite(self.at.height)
        if not known.all():
            raise SnapshotError(f"snapshot: client {self.clients[int(known.argmin())]!r} is nowhere")
        again = (self.owner[1:] == self.owner[:-1]) & (self.topic[1:] <= self.topic[:-1])
        if again.any():
            who = self.clients[self.owner[int(again.argmax())]]
            raise SnapshotError(f"snapshot: client {who!r} has a topic twice, or topics that are not sorted")

    @property
    def owner(self) -> Ints:
        """The client of every entry."""
        return np.repeat(np.arange(len(self.clients)), np.diff(self.first))

    @property
    def reachable(self) -> Bools:
        """Servers that have said where they are."""
        return np.isfinite(self.servers.height) & np.isfinite(self.servers.vec).all(axis=1)

    def between_s(self) -> Floats:
        """d^S: from each server (rows) to each (columns); from one to itself is no way."""
        found = self.servers.to(self.servers)
        np.fill_diagonal(found, 0.0)
        return found

    def home_s(self, home: Ints) -> Floats:
        """d^H of every client if these were the homes: NaN for one that has none."""
        some = home >= 0
        found = np.full(len(home), np.nan)
        found[some] = self.at[some].each_to(self.servers, home[some])
        return found

    def among(self, servers: Ints) -> Area:
        """With these servers only, counted anew; clients of others have no home."""
        number = np.full(len(self.servers) + 1, NOWHERE)  # the last is for those that had none
        number[servers] = np.arange(len(servers))
        return replace(
            self,
            servers=self.servers[servers],
            storage=self.storage[servers],
            compute=self.compute[servers],
            home=number[self.home],
        )


def _must_all(holds: Bools, otherwise: str) -> None:
    if not holds.all():
        raise SnapshotError(f"snapshot: {otherwise.format(int(holds.argmin()))}")
