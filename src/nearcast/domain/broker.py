"""What the store holds of one broker that came, or is to go, while the fleet runs. One key per broker."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Addresses = tuple[tuple[str, str], ...]
"""Brokers and their addresses, without credentials: those of whoever connects are its own affair."""

Book = Mapping[str, str]
"""The same, by broker, of those that came later than the files which processes have."""

NO_BOOK: Book = {}


class Presence(enum.StrEnum):
    """In this order, but for a drain that is cancelled; each is written before it is acted on."""

    JOINING = "joining"  # asked for; its server may not run yet, its agent has not been heard
    PRESENT = "present"
    DRAINING = "draining"  # what it has moves away, nothing moves to it
    LEAVING = "leaving"  # empty; its server is being released
    REMOVED = "removed"  # kept, so that an agent that still runs there, or a file that names it, brings nothing back


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """`url` is empty where every process has it from its own file, and until a rented server runs."""

    name: str
    state: Presence
    url: str = ""
    site: str = ""
    out_bytes_per_s: float | None = None
    rented: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is part of the fleet, and may be given topics."""
        return self.state is Presence.PRESENT


def addresses_in(book: Book, brokers: Iterable[str]) -> Addresses:
    """Of those of the brokers that the book has."""
    return tuple((broker, book[broker]) for broker in brokers if broker in book)
