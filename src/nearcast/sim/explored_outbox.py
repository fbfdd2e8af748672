"""What a process of the explored world does in one step."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from nearcast.control.instructions import (
    Answer,
    Attach,
    Command,
    Detach,
    Instruction,
    Ready,
    Reply,
    Say,
    Send,
)
from nearcast.wire.control import Alive

COORDINATOR = "C"


def agent_of(broker: str) -> str:
    return f"A{broker}"


class Violated(Exception):  # a finding of the explorer, not an error of the program
    pass


@dataclass(slots=True)
class Outbox:
    """What a process does in one step: messages put on channels, and what a reader of the trace should know."""

    puts: list[tuple[str, Hashable]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def follow(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Send(broker, envelope):
                    self.puts.append((broker, envelope))
                case Say(broker, message) | Command(broker, message):
                    self.puts.append((agent_of(broker), message))
                case Attach(broker):
                    self.puts.append((broker, "subscribe"))
                case Detach(broker):
                    self.puts.append((broker, "unsubscribe"))
                case Reply(client, message):
                    self.puts.append((client, message))
                case Answer(Alive()):
                    pass  # agents' leases are the world's doing
                case Answer(message):
                    self.puts.append((COORDINATOR, message))
                case Ready():
                    self.notes.append("S is ready")
