"""Made-up records of a schema, of few different values, so that they match each other and a query's parameters."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from nearcast.domain.channel import Parameter, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

_NULLS = 0.1
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Source:
    """A dataset as a query sees it: its columns in Spark's notation, and its key if it has one."""

    schema: str
    key: str | None = None


def records(session: "SparkSession", source: Source, count: int, chance: random.Random) -> "DataFrame":
    """`count` of them, fewer if there are not so many keys."""
    fields = _struct(source.schema).fields
    rows = [tuple(_field(field, source.key, chance) for field in fields) for _ in range(count)]
    if source.key is not None:
        place = [field.name.lower() for field in fields].index(source.key.lower())
        rows = list({row[place]: row for row in rows}.values())
    return few(session, rows, source.schema)


def few(session: "SparkSession", rows: Sequence[Sequence[Any]], schema: str) -> "DataFrame":
    """Rows of this process, without a Python worker of Spark's for them."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # an extra

    kind = _struct(schema)
    arrow = to_arrow_schema(kind, timezone="UTC")
    columns = zip(*rows, strict=True) if rows else [()] * len(kind)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, arrow, strict=True)]
    table: Any = pa.table(arrays, schema=arrow)
    return session.createDataFrame(table, kind)


def values(parameters: tuple[Parameter, ...], chance: random.Random) -> dict[str, Value]:
    """Of the same few values as records have."""
    found: dict[str, Value] = {}
    for each in parameters:
        value = _value(_struct(f"x {each.type}").fields[0].dataType, chance)
        if isinstance(value, datetime):
            value = value.strftime("%Y-%m-%dT%H:%M:%SZ")
        found[each.name] = value.isoformat() if isinstance(value, date) else value
    return found


def _struct(schema: str) -> "StructType":
    from pyspark.sql.types import StructType  # noqa: PLC0415

    found = StructType.fromDDL(schema)
    assert isinstance(found, StructType)
    return found


def _field(field: "StructField", key: str | None, chance: random.Random) -> Any:
    required = not field.nullable or (key is not None and field.name.lower() == key.lower())
    return None if not required and chance.random() < _NULLS else _value(field.dataType, chance)


def _value(kind: "DataType", chance: random.Random) -> Any:
    from pyspark.sql import types  # noqa: PLC0415

    match kind:
        case types.StringType() | types.VarcharType() | types.CharType():
            return chance.choice("abc")
        case types.BooleanType():
            return chance.random() < 0.5
        case types.DoubleType() | types.FloatType():
            return chance.randrange(8) / 2
        case types.DecimalType():
            return Decimal(chance.randrange(4)).scaleb(0)
        case types.DateType():
            return (_FIRST + timedelta(days=chance.randrange(4))).date()
        case types.TimestampNTZType():
            return (_FIRST + timedelta(hours=chance.randrange(4))).replace(tzinfo=None)
        case types.TimestampType():
            return _FIRST + timedelta(hours=chance.randrange(4))
        case types.BinaryType():
            return chance.choice((b"a", b"b"))
        case types.ArrayType():
            return [_value(kind.elementType, chance) for _ in range(chance.randrange(3))]
        case types.MapType():
            return [(_value(kind.keyType, chance), _value(kind.valueType, chance)) for _ in range(chance.randrange(2))]
        case types.StructType():
            return {field.name: _field(field, None, chance) for field in kind.fields}
        case _:
            return chance.randrange(4)
