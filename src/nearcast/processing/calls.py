"""A processor, ready to be called: from the name of a Python callable, or from SQL."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence
from typing import Protocol

from nearcast.control.spool import Spool
from nearcast.domain.errors import ProcessorError
from nearcast.domain.message import Message
from nearcast.domain.processor import Language, Processor
from nearcast.processing.sql import Query

Function = Callable[[Message, Sequence[Message]], object]
"""What a user writes: the message and the topic's last ones before it; returns bytes, a Message, a list of these, or
None."""


class Call(Protocol):
    def __call__(self, message: Message, spool: Spool) -> tuple[bytes, ...]:
        """The payloads that take the message's place. Raises whatever the processor raises, and ProcessorError."""
        ...


def load(processor: Processor) -> Call:
    """Raises ProcessorError for what cannot be imported or prepared."""
    if processor.language is Language.SQL:
        return Query(processor.code)
    return _Python(_function(processor.code))


class _Python:
    def __init__(self, function: Function) -> None:
        self._function = function

    def __call__(self, message: Message, spool: Spool) -> tuple[bytes, ...]:
        return payloads_of(self._function(message, spool.since(0)))


def payloads_of(returned: object) -> tuple[bytes, ...]:
    """Raises ProcessorError for what is no message."""
    if returned is None:
        return ()
    many = returned if isinstance(returned, list | tuple) else (returned,)
    return tuple(_payload_of(each) for each in many)


def _payload_of(returned: object) -> bytes:
    if isinstance(returned, bytes):
        return returned
    if isinstance(returned, Message):
        return returned.payload
    raise ProcessorError(
        f"the processor returned {type(returned).__name__}; expected bytes, a Message, a list of these, or None"
    )


def _function(code: str) -> Function:
    """`package.module:function`; `package.module:factory(1.5)` is what the factory makes of the numbers."""
    name, _, arguments = code.partition("(")
    module_name, _, path = name.partition(":")
    try:
        found: object = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
        if arguments and callable(found):
            given = arguments.removesuffix(")").strip()
            found = found(*ast.literal_eval(f"({given},)")) if given else found()
    except Exception as error:
        raise ProcessorError(f"processor {code!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ProcessorError(f"processor {code!r} is {type(found).__name__}, and cannot be called")
    function: Function = found
    return function
