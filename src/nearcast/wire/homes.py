"""An operator's question about subscribers and their homes, and what the leader answers."""

from __future__ import annotations

import msgspec


class HomesOrder(msgspec.Struct, frozen=True, tag=True):
    """How are the subscribers of channels spread over the brokers?"""

    asker: str
    number: int


class HomeLoad(msgspec.Struct, frozen=True):
    """One broker: its subscribers, the keys that it pulls for them, and the load that follows (equation 5 of BAD).

    `usable`: it reports and is not being drained, so that it counts in the mean.
    """

    broker: str
    subscribers: int
    keys: int
    load_bytes_per_s: float
    usable: bool = True


class HomesTold(msgspec.Struct, frozen=True, tag=True):
    """`cov` is of the usable brokers (equation 6). `keys`: distinct ones of all brokers together.

    `moving` subscribers are being told to go elsewhere, `waiting` ones will be. `unheard`: brokers whose agents have
    not said who is at home there. `reasons`: of the last plan that moved anybody, by policy `policy`.
    """

    number: int
    brokers: tuple[HomeLoad, ...] = ()
    subscribers: int = 0
    keys: int = 0
    cov: float = 0.0
    moving: int = 0
    waiting: int = 0
    unheard: tuple[str, ...] = ()
    policy: str = ""
    reasons: tuple[str, ...] = ()
    refused: str = ""
