"""A message as the application gets it."""

import msgspec

from nearcast.domain.log import Position


class Message(msgspec.Struct, frozen=True, gc=False):
    """`publisher` and `seq` name it; both are 0 when it is unsequenced: sent by a client that is not ours.

    `position`: of a persistent topic's, where to read on after it.
    """

    topic: str
    payload: bytes
    publisher: int
    seq: int
    sent_ns: int
    position: Position | None = None

    @property
    def sequenced(self) -> bool:
        return self.publisher != 0
