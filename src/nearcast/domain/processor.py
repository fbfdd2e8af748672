"""What is done with a topic's messages at the broker where they are published, before subscribers get them."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from nearcast.domain.errors import ConfigError
from nearcast.domain.topic import validate_topic

MOST_SPOOL = 100_000
MOST_QUEUE = 100_000
MOST_LIMIT_MS = 60_000.0
MOST_CODE_BYTES = 16_384
"""Every route that is told of carries it."""

_CALLABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*(\([\d., -]*\))?")
_DEAD = ".dead"


class Language(enum.StrEnum):
    PYTHON = "python"  # `code` names an importable callable: package.module:function
    SQL = "sql"  # `code` is a SELECT over the tables `message` and `spool`


class WhenFull(enum.StrEnum):
    DROP = "drop"  # what finds the queue full is left out, and subscribers are told of a gap
    BLOCK = "block"  # publishers are asked to wait: their `publish()` takes longer


@dataclass(frozen=True, slots=True)
class Processor:
    """`spool`: how many of the topic's messages before this one it sees; `limit_ms`: how long one may take.

    At most `queue` messages of the topic wait at one broker, and `when_full` says what becomes of the next one.
    """

    language: Language
    code: str
    spool: int = 0
    limit_ms: float = 1000.0
    queue: int = 1000
    when_full: WhenFull = WhenFull.DROP

    def __post_init__(self) -> None:
        if self.language is Language.PYTHON and not _CALLABLE.fullmatch(self.code):
            raise ConfigError(
                f"processor {self.code!r}: expected an importable callable, like package.module:function, or"
                " package.module:factory(1.5) for one that is made with numbers"
            )
        if not self.code.strip() or len(self.code.encode()) > MOST_CODE_BYTES:
            raise ConfigError(f"processor: its text must have 1 to {MOST_CODE_BYTES} bytes, got {len(self.code)}")
        if not 0 <= self.spool <= MOST_SPOOL:
            raise ConfigError(f"processor: spool is {self.spool}; expected 0 to {MOST_SPOOL} messages")
        if not 1 <= self.queue <= MOST_QUEUE:
            raise ConfigError(f"processor: queue is {self.queue}; expected 1 to {MOST_QUEUE} messages")
        if not 0.0 < self.limit_ms <= MOST_LIMIT_MS:  # NaN is not
            raise ConfigError(
                f"processor: limit is {self.limit_ms} ms; expected more than 0, at most {MOST_LIMIT_MS:g}"
            )

    def stay_s(self, wait_s: float) -> float:
        """How long a message may be at it, when it waits for `wait_s` at most."""
        return wait_s + self.limit_ms / 1e3

    def __str__(self) -> str:
        return self.code if self.language is Language.PYTHON else f"SQL {self.code!r}"


def dead_letter_topic(topic: str) -> str:
    """Where what could not be processed goes. Raises TopicNameError for a topic whose name is too long for that."""
    return validate_topic(topic + _DEAD)
