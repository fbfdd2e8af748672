"""A dataset, its table, and the feeds that fill it, as the catalog keeps them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearcast.domain.errors import CatalogRefused
from nearcast.domain.schema import Schema

FORMATS = ("parquet", "orc")
"""What Spark writes a file at a time and pyarrow can count without reading it."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_NAMES = "expected letters, digits and underscores, a letter first, at most 63"


@dataclass(frozen=True, slots=True)
class Dataset:
    """`id` tells it from an earlier one of the same name. With a `key` it holds the latest record per key.

    `retain_s`: records may be removed when they are older; None: nothing is removed because of its age.
    """

    name: str
    id: str
    schema: Schema
    key: str | None = None
    format: str = FORMATS[0]
    retain_s: float | None = None
    at_s: float = 0.0  # when it was created

    def __post_init__(self) -> None:
        must_be_name("dataset", self.name)
        if self.key is not None:
            self._must_be_key(self.key)
        if self.format not in FORMATS:
            raise CatalogRefused(f"dataset {self.name}: format is {self.format!r}; one of {', '.join(FORMATS)}")
        if self.retain_s is not None and not self.retain_s > 0:
            raise CatalogRefused(f"dataset {self.name}: retain is {self.retain_s} s; expected more than 0")

    def _must_be_key(self, key: str) -> None:
        column = self.schema.column(key)
        if column is None:
            known = ", ".join(self.schema.names)
            raise CatalogRefused(f"dataset {self.name}: key {key!r} is no column of it; columns are {known}")
        if column.type in {"FLOAT", "DOUBLE"} or column.type.startswith(("MAP", "ARRAY", "STRUCT")):
            raise CatalogRefused(
                f"dataset {self.name}: key {key!r} is {column.type}, which is not compared for equality safely"
            )


@dataclass(frozen=True, slots=True)
class Feed:
    """What is read from `source` goes into `dataset`. `format` is how records are written there.

    `id` tells it from an earlier one of the same name, which had come elsewhere.
    """

    name: str
    id: str
    source: str
    dataset: str
    format: str = "json"
    at_s: float = 0.0

    def __post_init__(self) -> None:
        must_be_name("feed", self.name)

    @property
    def work(self) -> str:
        """What the pipeline calls the running of it."""
        return f"feed {self.name} {self.id}"

    @property
    def folder(self) -> str:
        """Below the pipeline's, of what it has to keep itself."""
        return f"feeds/{self.name}-{self.id}"


def must_be_name(kind: str, name: str) -> None:
    """Raises CatalogRefused for what cannot stand in a query without quotes."""
    if not _NAME.fullmatch(name):
        raise CatalogRefused(f"{name!r} is no name for a {kind}: {_NAMES}")
