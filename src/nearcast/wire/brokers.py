"""Orders about brokers, and how they stand."""

from __future__ import annotations

from typing import Literal

import msgspec

from nearcast.domain.broker import Presence

BrokerDoing = Literal["add", "drain", "cancel", "remove"]
MOST_TOPICS = 5  # that are named of those which a broker still has


class BrokerOrder(msgspec.Struct, frozen=True, tag=True):
    """Answered at once, when it is written or refused; how far it is, `Status` says. `url` "": rent a server.

    `reason`: why, as whoever asks for it says.
    """

    asker: str
    number: int
    do: BrokerDoing
    broker: str
    url: str = ""
    site: str = ""
    out_bytes_per_s: float | None = None
    reason: str = ""


class BrokerStanding(msgspec.Struct, frozen=True):
    """`left`: topics that still use it, `topics` some of them; `trouble`: why it does not get on."""

    name: str
    state: Presence
    url: str
    site: str
    rented: bool
    in_ring: bool
    left: int
    topics: tuple[str, ...] = ()
    trouble: str = ""
