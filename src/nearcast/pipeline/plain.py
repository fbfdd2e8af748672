"""JSON objects as records without Spark, where there is no doubt about them.

What is taken here is what Spark's own reading would take, with the same values: columns of plain types, every value of
its column's own JSON type, nothing missing that must be there. Of anything else nothing is said: then Spark judges all
of the batch, and says what is wrong with which record (`records`).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from nearcast.domain.dataset import Dataset
from nearcast.domain.schema import Column
from nearcast.pipeline.records import required

_TYPES: dict[str, Any] = {
    "BOOLEAN": bool,
    "TINYINT": int,
    "SMALLINT": int,
    "INT": int,
    "BIGINT": int,
    "DOUBLE": float,
    "STRING": str,
}

Row = tuple[Any, ...]


def plain_rows(texts: Iterable[str], dataset: Dataset) -> list[Row] | None:
    """A row for each text, with a value for each column; None when there is a doubt about any.

    A number may still be too large for its column.
    """
    reader = _reader(dataset.schema.columns, required(dataset))
    if reader is None:
        return None
    decode, row = reader
    try:
        return [row(decode(text)) for text in texts]
    except (msgspec.MsgspecError, UnicodeError):
        return None


@lru_cache(256)
def _reader(
    columns: Sequence[Column], needed: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[Any], Row]] | None:
    if any(each.type not in _TYPES for each in columns):
        return None
    names = {f"c{number}": each for number, each in enumerate(columns)}
    must = [(name, _TYPES[each.type]) for name, each in names.items() if each.name in needed]
    may = [(name, _TYPES[each.type] | None, None) for name, each in names.items() if each.name not in needed]
    rename = {name: each.name for name, each in names.items()}
    kind = msgspec.defstruct("Record", [*must, *may], rename=rename, gc=False)
    if len(names) == 1:
        return msgspec.json.Decoder(kind).decode, lambda record: (record.c0,)
    return msgspec.json.Decoder(kind).decode, attrgetter(*names)
