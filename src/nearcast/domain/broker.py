"""What the store holds of one broker that came, or is to go, while the fleet runs. One key per broker."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nearcast.domain.errors import BrokerRefused

Addresses = tuple[tuple[str, str], ...]
"""Brokers and their addresses, without credentials: those of whoever connects are its own affair."""

Book = Mapping[str, str]
"""The same, by broker, of those that came later than the files which processes have."""

NO_BOOK: Book = {}


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")


NAMES = "expected letters, digits and dashes, at most 63"


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


class Presence(enum.StrEnum):
    """In this order, but for a drain that is cancelled; each is written before it is acted on."""

    JOINING = "joining"  # asked for; its server may not run yet, its agent has not been heard
    PRESENT = "present"
    DRAINING = "draining"  # what it has moves away, nothing moves to it
    LEAVING = "leaving"  # empty; its server is being released
    REMOVED = "removed"  # kept, so that an agent that still runs there, or a file that names it, brings nothing back


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """`url` is empty where every process has it from its own file, and until a rented server runs.

    `in_ring`: it was in the ring when it was to be drained, and goes back into it if it is kept after all.
    `reason`: why whoever ordered it last did so, in its own words.
    """

    name: str
    state: Presence
    url: str = ""
    site: str = ""
    out_bytes_per_s: float | None = None
    rented: bool = False
    in_ring: bool = False
    reason: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is part of the fleet, and may be given topics."""
        return self.state is Presence.PRESENT


def addresses_in(book: Book, brokers: Iterable[str]) -> Addresses:
    """Of those of the brokers that the book has."""
    return tuple((broker, book[broker]) for broker in brokers if broker in book)


def must_be_name(name: str) -> None:
    """Raises BrokerRefused for what no broker can be called."""
    if not is_name(name):
        raise BrokerRefused(f"{name!r} is no name for a broker: {NAMES}")
