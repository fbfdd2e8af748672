"""Columns as people write them."""

import pytest

from nearcast.domain.errors import SchemaError
from nearcast.domain.schema import Column, parse_schema


def test_a_schema_is_read_in_sparks_notation_and_written_in_one_spelling() -> None:
    schema = parse_schema(" id long NOT null,kind String ,price dec(8,2), at timestamp,\n tags array<string>")
    assert schema.columns[:2] == (Column("id", "BIGINT", nullable=False), Column("kind", "STRING"))
    assert str(schema) == "id BIGINT NOT NULL, kind STRING, price DECIMAL(8, 2), at TIMESTAMP, tags ARRAY<STRING>"
    assert parse_schema(str(schema)) == schema


def test_types_may_hold_types() -> None:
    nested = parse_schema("a MAP<STRING, ARRAY<INT>>, b STRUCT<x: DOUBLE, y STRUCT<z: DECIMAL>>")
    assert nested.columns[0].type == "MAP<STRING, ARRAY<INT>>"
    assert nested.columns[1].type == "STRUCT<x: DOUBLE, y: STRUCT<z: DECIMAL(10, 0)>>"


def test_a_column_is_found_whatever_the_case_of_its_letters() -> None:
    schema = parse_schema("userId BIGINT")
    assert schema.column("USERID") == Column("userId", "BIGINT")
    assert schema.column("user") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: the end where a column's name is expected"),
        ("id", "character 3: the end is no type; one of BOOLEAN"),
        ("id BIGINTEGER", "character 4: 'BIGINTEGER' is no type"),
        ("id BIGINT lat DOUBLE", "character 11: 'lat' after the type of 'id'; expected a comma"),
        ("id BIGINT,", "character 11: the end where a column's name"),
        ("id BIGINT, ID INT", "character 12: column 'ID' is there twice"),
        ("_version BIGINT", "character 1: column '_version': names that begin with _"),
        ("id BIGINT NOT LULL", "character 15: 'LULL' after NOT; expected NULL"),
        ("p DECIMAL(50)", r"character 3: DECIMAL\(50, 0\); at most 38 digits"),
        ("p DECIMAL(4,x)", "character 13: 'x' where a number is expected"),
        ("a ARRAY<INT", "character 12: '>' is missing"),
        ("a MAP<INT>", "character 10: '>' where ',' is expected"),
        ("a STRUCT<x: INT; y INT>", "character 16: ';' within a STRUCT"),
        ("1d INT", "character 1: '1' where a column's name"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        parse_schema(text)
