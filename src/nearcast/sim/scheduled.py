"""What the virtual loop runs: callbacks, and tasks and futures whose hashes do not depend on addresses.

asyncio.TaskGroup, gather and wait iterate over sets of tasks or futures. The order of a set follows the hashes, and the
usual hash of an object is its address, which differs from process to process.
"""

import asyncio
import contextvars
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Timers(Protocol):
    """Where timers wait. It is told of those that wait in vain, so that it can throw them out."""

    def timer_cancelled(self) -> None: ...


class Callback(asyncio.TimerHandle):
    """One call to make, now or at a time. It keeps its own fields, because those of asyncio's cost twice as much."""

    __slots__ = ("args", "call", "context", "due_s", "live", "timers_of")

    def __init__(  # asyncio's __init__ is left out on purpose: none of its fields are used.
        self,
        call: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        due_s: float,
        timers_of: Timers | None,
    ) -> None:
        self.call = call
        self.args = args
        self.context = contextvars.copy_context() if context is None else context
        self.due_s = due_s
        self.timers_of = timers_of
        self.live = True

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<Callback {self.call!r} due {self.due_s} s{'' if self.live else ', cancelled'}>"

    def cancel(self) -> None:
        if self.live:
            self.live = False
            self.args = ()
            if self.timers_of is not None:
                self.timers_of.timer_cancelled()

    def cancelled(self) -> bool:
        return not self.live

    def when(self) -> float:
        return self.due_s


class VirtualFuture(asyncio.Future[T]):
    """A future whose hash is the count at which it was first asked for."""

    __slots__ = ("_number",)

    _number: int

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:
            self._number = _count(self)
            return self._number


class VirtualTask(asyncio.Task[T]):
    """A task whose hash is the count of its creation: asyncio registers, and so hashes, every task at once."""

    __slots__ = ("_number",)

    _number: int

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:
            self._number = _count(self)
            return self._number


class Remembered(Generic[T]):
    """Objects in the order of their creation, for as long as somebody else holds them."""

    def __init__(self) -> None:
        self._refs: list[weakref.ref[T]] = []
        self._sweep_at = 1_000

    def add(self, one: T) -> None:
        self._refs.append(weakref.ref(one))
        if len(self._refs) > self._sweep_at:
            self._refs = [ref for ref in self._refs if ref() is not None]
            self._sweep_at = 2 * len(self._refs) + 1_000

    def __iter__(self) -> Iterator[T]:
        for ref in list(self._refs):
            one = ref()
            if one is not None:
                yield one


def _count(future: asyncio.Future[T]) -> int:
    loop: Any = future.get_loop()
    number: int = loop.next_number()
    return number
