"""Columns of a dataset as people write them, in Spark's own notation: `id BIGINT NOT NULL, kind STRING, lat DOUBLE`.

Read here, so that a wrong one is told at once and by its place, without a Spark session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nearcast.domain.errors import SchemaError

_ALIASES = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}
_PLAIN = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "STRING",
    "BINARY",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
)
_NESTED = ("ARRAY<...>", "MAP<..., ...>", "STRUCT<name: ..., ...>")
TYPES = ", ".join((*_PLAIN, "DECIMAL(p, s)", *_NESTED))

_MAX_PRECISION = 38
_TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z_]\w*)|(?P<number>\d+)|(?P<mark>[<>(),:])|(?P<other>\S))")


@dataclass(frozen=True, slots=True)
class Column:
    """`type` as Spark names it, in capitals."""

    name: str
    type: str
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name} {self.type}" + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True, slots=True)
class Schema:
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        """Whatever its letters' case, as in SQL."""
        return next((each for each in self.columns if each.name.lower() == name.lower()), None)

    def __str__(self) -> str:
        """What `parse_schema` and Spark both read."""
        return ", ".join(map(str, self.columns))


def parse_schema(text: str) -> Schema:
    """Raises SchemaError, with the place."""
    return _Reader(text).schema()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*_tokens(text), ("", len(text) + 1)]
        self._next = 0

    def schema(self) -> Schema:
        columns: list[Column] = []
        while True:
            name, place = self._name()
            if name.startswith("_"):
                raise self._wrong(place, f"column {name!r}: names that begin with _ are for nearcast's own columns")
            if any(each.name.lower() == name.lower() for each in columns):
                raise self._wrong(place, f"column {name!r} is there twice; Spark does not tell capitals from others")
            columns.append(Column(name, self._type(), nullable=not self._not_null()))
            word, place = self._take()
            if not word:
                return Schema(tuple(columns))
            if word != ",":
                raise self._wrong(place, f"{word!r} after the type of {name!r}; expected a comma, NOT NULL or the end")

    def _name(self) -> tuple[str, int]:
        word, place = self._take()
        if not re.fullmatch(r"[A-Za-z_]\w*", word):
            found = repr(word) if word else "the end"
            raise self._wrong(place, f"{found} where a column's name is expected, as in `id BIGINT, lat DOUBLE`")
        return word, place

    def _type(self) -> str:
        word, place = self._take()
        name = _ALIASES.get(word.upper(), word.upper())
        if name in _PLAIN:
            return name
        match name:
            case "DECIMAL":
                return self._decimal(place)
            case "ARRAY":
                self._expect("<")
                inner = self._type()
                self._expect(">")
                return f"ARRAY<{inner}>"
            case "MAP":
                self._expect("<")
                key = self._type()
                self._expect(",")
                value = self._type()
                self._expect(">")
                return f"MAP<{key}, {value}>"
            case "STRUCT":
                return self._struct()
            case _:
                found = repr(word) if word else "the end"
                raise self._wrong(place, f"{found} is no type; one of {TYPES}")

    def _decimal(self, place: int) -> str:
        precision, scale = 10, 0
        if self._peek() == "(":
            self._take()
            precision = self._number()
            if self._peek() == ",":
                self._take()
                scale = self._number()
            self._expect(")")
        if not (1 <= precision <= _MAX_PRECISION and scale <= precision):
            raise self._wrong(
                place, f"DECIMAL({precision}, {scale}); at most {_MAX_PRECISION} digits, and no more after"
            )
        return f"DECIMAL({precision}, {scale})"

    def _struct(self) -> str:
        self._expect("<")
        fields: list[str] = []
        while True:
            name, _ = self._name()
            if self._peek() == ":":
                self._take()
            fields.append(f"{name}: {self._type()}")
            word, place = self._take()
            if word == ">":
                return f"STRUCT<{', '.join(fields)}>"
            if word != ",":
                raise self._wrong(place, f"{word!r} within a STRUCT; expected a comma or >")

    def _not_null(self) -> bool:
        if self._peek().upper() != "NOT":
            return False
        self._take()
        word, place = self._take()
        if word.upper() != "NULL":
            raise self._wrong(place, f"{word!r} after NOT; expected NULL")
        return True

    def _number(self) -> int:
        word, place = self._take()
        if not word.isdecimal():
            raise self._wrong(place, f"{word!r} where a number is expected")
        return int(word)

    def _expect(self, mark: str) -> None:
        word, place = self._take()
        if word != mark:
            raise self._wrong(place, f"{word!r} where {mark!r} is expected" if word else f"{mark!r} is missing")

    def _peek(self) -> str:
        return self._tokens[self._next][0]

    def _take(self) -> tuple[str, int]:
        found = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return found

    def _wrong(self, place: int, what: str) -> SchemaError:
        return SchemaError(f"schema, character {place}: {what}")


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Each with its place, counted from 1."""
    place = 0
    while found := _TOKEN.match(text, place):
        place = found.end()
        kind = found.lastgroup or "other"
        yield found.group(kind), found.start(kind) + 1
