"""Where feeds read from: what a source gives, and how it is written in the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import CatalogRefused
from nearcast.domain.topic import validate_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC, FILE, HTTP = "topic", "file", "http"
FORMATS = {TOPIC: ("json",), HTTP: ("json",), FILE: ("json", "csv", "parquet")}
_ENDINGS = {".csv": "csv", ".parquet": "parquet"}


Judged = Callable[["SparkSession", Dataset], "DataFrame"]
"""Makes the frame of what was read, judged by a dataset's columns (see `records`): for a thread."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What was read from a source in one go, not yet in the table.

    `offset`: how far the source has been read with it; None where nothing can be read again. `texts`: the same as JSON
    objects, where it is nothing else.
    """

    judged: Judged
    offset: str | None
    count: int  # of files or messages
    texts: Sequence[str] | None = None


class Source(Protocol):
    async def next(self, offset: str | None) -> Batch:
        """What comes after `offset`, as soon as there is something; None: from the beginning.

        Asked again with an earlier offset, it reads again from there.
        """
        ...

    async def close(self) -> None: ...


def parse_source(text: str, format: str | None = None) -> tuple[str, str, str]:  # noqa: A002  # its name in the catalog
    """(kind, what, format) of `topic:T`, `file:PATH` or `http`. Raises CatalogRefused or TopicNameError."""
    kind, _, what = text.partition(":")
    if kind not in FORMATS or (kind != HTTP) != bool(what):
        raise CatalogRefused(f"a feed from {text!r}; expected topic:NAME, file:PATH or http")
    if kind == TOPIC:
        validate_topic(what)
    ending = next((found for end, found in _ENDINGS.items() if kind == FILE and what.endswith(end)), "json")
    chosen = format or ending
    if chosen not in FORMATS[kind]:
        raise CatalogRefused(f"records from {text!r} as {chosen!r}; expected {', '.join(FORMATS[kind])}")
    return kind, what, chosen
