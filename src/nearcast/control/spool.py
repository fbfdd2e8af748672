"""A topic's last messages at one agent: what its processor may look back on."""

from __future__ import annotations

from collections import deque

from nearcast.domain.message import Message


class Spool:
    """`count` is of all that ever came, so that who has seen some of them can be given the rest."""

    __slots__ = ("_kept", "count", "size")

    def __init__(self, size: int = 0) -> None:
        self.size = size
        self.count = 0
        self._kept: deque[Message] = deque(maxlen=size)

    def append(self, message: Message) -> None:
        self.count += 1
        self._kept.append(message)

    def merge(self, copies: list[Message]) -> None:
        """What others have spooled of the topic, behind what is here; each once, if it has a number to know it by."""
        kept = {(each.publisher, each.seq) for each in self._kept}
        for each in copies:
            if not each.sequenced or (each.publisher, each.seq) not in kept:
                self.append(each)

    def resize(self, size: int) -> None:
        """Another processor looks back on more, or on less."""
        if size != self.size:
            self.size = size
            self._kept = deque(self._kept, maxlen=size)

    def since(self, count: int) -> list[Message]:
        """What came after the first `count`, as far as it is kept, oldest first."""
        wanted = min(self.count - count, len(self._kept))
        return list(self._kept)[len(self._kept) - wanted :] if wanted > 0 else []
