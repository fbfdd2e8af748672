"""Processors for tests and measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nearcast.domain.message import Message


def busy(ms: float) -> Callable[[Message, Sequence[Message]], bytes]:
    """A processor that keeps one core busy for so long of its own processor time, and passes the message on.

    It counts processor time, as the paper's stress tool does, not the wall's: with several on one core each takes
    longer, by as much as the others take. Its error is some tens of microseconds.
    """

    def process(message: Message, _spool: Sequence[Message]) -> bytes:
        until_s = time.thread_time() + ms / 1e3
        while time.thread_time() < until_s:
            sum(_SOME)
        return message.payload

    return process


_SOME = tuple(range(50))
