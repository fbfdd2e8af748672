"""What could not be read: counted, logged once per source, dropped. A receive loop never raises because of it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from nearcast.domain.errors import WireError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_MOST_SOURCES = 10_000


class Rejects:
    """`count` is exact for all sources together; at most `_MOST_SOURCES` distinct ones are told apart."""

    def __init__(self) -> None:
        self.count = 0
        self.by_source: Counter[str] = Counter()

    def read(self, decode: Callable[[], _T], source: str) -> _T | None:
        """`decode()`, or None when it raised a WireError."""
        try:
            return decode()
        except WireError as error:
            self.note(error, source)
            return None

    def note(self, error: WireError, source: str) -> None:
        """What came from `source` was dropped because of it."""
        self.count += 1
        if source not in self.by_source:
            if len(self.by_source) >= _MOST_SOURCES:
                return
            _log.warning("dropped an unreadable message from %s: %s (further ones are only counted)", source, error)
        self.by_source[source] += 1
