"""A processor in SQL, by SQLite: one SELECT over the tables `message` (one row) and `spool`, in the worker's memory.

The columns of both tables are the fields of a message's JSON object that the query names; beside them `payload`, the
JSON text itself, and `publisher`, `seq` and `sent_ns`. Every row of the answer becomes a message, a JSON object with
the answer's columns; without a row there is none. What the query may do is read these two tables and call functions.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3

import msgspec

from nearcast.control.spool import Spool
from nearcast.domain.errors import ProcessorError
from nearcast.domain.message import Message

_OWN = ("payload", "publisher", "seq", "sent_ns")
_UNKNOWN_COLUMN = re.compile(r"no such column: (?:.*\.)?(.+)")
_MOST_FIELDS = 200
# Strings, comments and quoted names. SQLite takes a quoted name that it does not know for a string: it must know them.
_QUOTED = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?(?:\*/|$)|\"((?:[^\"]|\"\")+)\"|`([^`]+)`|\[([^\]]+)\]", re.DOTALL)
_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    getattr(sqlite3, "SQLITE_RECURSIVE", 33),
}

_decode = msgspec.json.Decoder(dict[str, object]).decode
_encode = msgspec.json.Encoder().encode


class Query:
    """Raises ProcessorError for what is not one SELECT that SQLite can prepare."""

    def __init__(self, text: str) -> None:
        self._text = text.strip().rstrip(";")
        self._spool: Spool | None = None
        self._seen = 0  # of it
        self.fields = self._find_fields()
        self._database = _tables(self.fields)  # what the text may do was looked at when its fields were found
        columns = ("_n", *self.fields, *_OWN)
        into = f"({', '.join(map(_quoted, columns))}) VALUES ({', '.join('?' * len(columns))})"
        self._replace = f"INSERT OR REPLACE INTO message {into}"
        self._append = f"INSERT OR REPLACE INTO spool {into}"

    def __call__(self, message: Message, spool: Spool) -> tuple[bytes, ...]:
        database = self._database
        if spool is not self._spool:
            database.execute("DELETE FROM spool")
            self._spool, self._seen = spool, 0
        if spool.count > self._seen:
            rows = spool.since(self._seen)
            first = spool.count - len(rows)
            database.executemany(self._append, (self._row(first + at, each) for at, each in enumerate(rows)))
            self._seen = spool.count
            database.execute("DELETE FROM spool WHERE _n < ? OR _n >= ?", (spool.count - spool.size, spool.count))
        database.execute(self._replace, self._row(0, message))
        found = database.execute(self._text)
        names = [each[0] for each in found.description]
        return tuple(_encode(dict(zip(names, row, strict=True))) for row in found)

    def _row(self, number: int, message: Message) -> tuple[object, ...]:
        try:
            values = _decode(message.payload)
        except msgspec.DecodeError as error:
            raise ProcessorError(f"the message is not a JSON object: {error}") from error
        fields = (_value(values.get(name)) for name in self.fields)
        text = message.payload.decode()
        return (number, *fields, text, message.publisher, message.seq, message.sent_ns)

    def _find_fields(self) -> tuple[str, ...]:
        """The names that the query uses and SQLite does not know: found by asking it until it knows all of them."""
        quoted = (next((part for part in each.groups() if part), "") for each in _QUOTED.finditer(self._text))
        fields = list(dict.fromkeys(name.replace('""', '"') for name in quoted if name and name not in _OWN))
        while True:
            database = _tables(tuple(fields))
            database.set_authorizer(_authorize)
            try:
                with contextlib.closing(database):
                    found = database.execute(self._text)
            except (sqlite3.Error, sqlite3.Warning) as error:
                unknown = _UNKNOWN_COLUMN.fullmatch(str(error))
                if unknown is None or len(fields) >= _MOST_FIELDS or unknown.group(1) in fields:
                    raise ProcessorError(f"SQL {self._text!r}: {error}") from error
                fields.append(unknown.group(1))
            else:
                if found.description is None:
                    raise ProcessorError(f"SQL {self._text!r}: not a SELECT; it would answer nothing")
                return tuple(fields)


def _tables(fields: tuple[str, ...]) -> sqlite3.Connection:
    # Autocommit; a worker is one thread.
    database = sqlite3.connect(":memory:", isolation_level=None)
    columns = ", ".join(map(_quoted, (*fields, *_OWN)))
    for table in ("message", "spool"):
        try:
            database.execute(f"CREATE TABLE {table} (_n INTEGER PRIMARY KEY, {columns})")
        except sqlite3.Error as error:
            raise ProcessorError(f"SQL: fields {', '.join(fields)} cannot be columns: {error}") from error
    return database


def _authorize(action: int, *_about: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _value(value: object) -> object:
    """What SQLite can hold: lists and objects are their JSON text, for its own JSON functions."""
    if isinstance(value, dict | list):
        return _encode(value).decode()
    return value
