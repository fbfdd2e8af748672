"""A message as the application gets it."""

import msgspec


class Message(msgspec.Struct, frozen=True, gc=False):
    """`publisher` and `seq` name it; both are 0 when it is unsequenced: sent by a client that is not ours."""

    topic: str
    payload: bytes
    publisher: int
    seq: int
    sent_ns: int

    @property
    def sequenced(self) -> bool:
        return self.publisher != 0
