"""A message as the application gets it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """`publisher` and `seq` name it; both are 0 when it is unsequenced: sent by a client that is not ours."""

    topic: str
    payload: bytes
    publisher: int
    seq: int
    sent_ns: int

    @property
    def sequenced(self) -> bool:
        return self.publisher != 0
