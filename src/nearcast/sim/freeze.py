"""Copies and keys of machine states, for the explorer.

Machines are plain objects with `__slots__` whose fields are values, dicts, lists, deques and further machines; values
are frozen and shared.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

_T = TypeVar("_T")
_MACHINES: set[type] = set()


def machine(*kinds: type) -> None:
    """Declares these classes as mutable machines, to be copied and frozen by their slots."""
    _MACHINES.update(kinds)


def clone(value: _T) -> _T:
    """A copy that shares only what never changes."""
    kind = type(value)
    if kind in _MACHINES:
        copy = kind.__new__(kind)
        for slot in kind.__slots__:  # type: ignore[attr-defined]  # every machine has them
            setattr(copy, slot, clone(getattr(value, slot)))
        return copy
    if kind is dict:
        return {key: clone(each) for key, each in value.items()}  # type: ignore[attr-defined, return-value]  # a dict
    if kind is list or kind is deque:
        return kind(clone(each) for each in value)  # type: ignore[attr-defined, call-arg]  # iterable
    return value


def freeze(value: Any) -> Any:  # it takes and gives whatever a machine holds
    """A hashable value that is equal for equal states, and only for those."""
    kind = type(value)
    if kind in _MACHINES:
        return tuple(freeze(getattr(value, slot)) for slot in kind.__slots__)
    if kind is dict:
        return tuple((key, freeze(each)) for key, each in value.items())
    if kind is list or kind is deque:
        return tuple(freeze(each) for each in value)
    if value is not None and getattr(kind, "__hash__", None) is object.__hash__:
        raise TypeError(f"{kind.__name__} changes while it is explored; declare it with freeze.machine()")
    return value
