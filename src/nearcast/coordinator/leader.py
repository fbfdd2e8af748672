"""What the parts of a coordinator need of the one that leads."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from nearcast.control.instructions import Instruction
from nearcast.control.move import SAME, Move, Same
from nearcast.control.rules import Rules
from nearcast.control.timing import Timing
from nearcast.coordinator.agents import Agents
from nearcast.coordinator.records import Records
from nearcast.domain.broker import Book
from nearcast.domain.log import TopicLog
from nearcast.domain.processor import Processor
from nearcast.domain.ring import Ring
from nearcast.domain.route import Delegation, Route, Strategy
from nearcast.wire.control import ToAgent


class Leader(Protocol):
    ring: Ring
    term: int | None
    agents: Agents
    records: Records
    timing: Timing
    rules: Rules

    @property
    def moves(self) -> dict[str, Move]: ...

    @property
    def book(self) -> Book: ...

    @property
    def leading(self) -> bool: ...

    def must_lead(self, records: Records | None = None) -> None:
        """Raises LeaseLost; with `records`, also when another has led since they were read."""
        ...

    def step_down(self) -> None:
        """Another leads, as was just found out."""
        ...

    async def write(self, records: Records, put: Callable[[], Awaitable[None]]) -> None:
        """Until it is known to be written. Raises LeaseLost."""
        ...

    def movable(self, topic: str) -> bool: ...

    def at_home(self, broker: str) -> int:
        """How many subscribers of channels it has."""
        ...

    def begin(
        self, topic: str, strategy: Strategy, brokers: tuple[str, ...], *, eager: bool = True, stay: bool = False
    ) -> None:
        """Raises MoveRefused or LeaseLost."""
        ...

    async def move(
        self,
        topic: str,
        strategy: Strategy,
        brokers: tuple[str, ...],
        *,
        eager: bool = True,
        stay: bool = False,
        log: TopicLog | None = None,
        processor: Processor | Same | None = SAME,
        delegation: Delegation | Same | None = SAME,
    ) -> int:
        """Raises MoveRefused or LeaseLost."""
        ...

    def drained(self, topic: str, brokers: tuple[str, ...], was: Route, reason: str) -> None:
        """Notes why the topic moves, which no policy wanted and no operator asked for by its name."""
        ...

    async def change_ring(self, brokers: tuple[str, ...]) -> None: ...

    def do(self, topic: str, instructions: list[Instruction]) -> None: ...

    def say(self, broker: str, message: ToAgent) -> None: ...
