"""Processors in SQL: filter, project, aggregate over the spool; and what is refused."""

import json

import pytest

from nearcast.control.spool import Spool
from nearcast.domain.errors import ProcessorError
from nearcast.domain.message import Message
from nearcast.processing.sql import Query


def message(seq: int = 1, **fields: object) -> Message:
    return Message("t", json.dumps(fields).encode(), 5, seq, 9)


def made(query: Query, given: Message, spool: Spool | None = None) -> list[object]:
    return [json.loads(each) for each in query(given, spool or Spool())]


def test_a_filter_and_a_projection() -> None:
    query = Query("SELECT id, speed * 3.6 AS kmh FROM message WHERE speed > 5")
    assert query.fields == ("id", "speed")
    assert made(query, message(id=1, speed=10.0)) == [{"id": 1, "kmh": 36.0}]
    assert made(query, message(id=1, speed=1.0)) == []
    assert made(query, message(id=1)) == []


def test_an_aggregate_over_the_spool_follows_it() -> None:
    query = Query("SELECT m.id, avg(s.speed) AS mean, count(*) AS n FROM message m, spool s WHERE s.id = m.id")
    spool = Spool(3)
    for number in range(5):
        spool.append(message(number, id=number % 2, speed=float(number)))
    assert made(query, message(id=0), spool) == [{"id": 0, "mean": 3.0, "n": 2}]
    spool.append(message(5, id=0, speed=10.0))
    assert made(query, message(id=0), spool) == [{"id": 0, "mean": 7.0, "n": 2}]
    another = Spool(3)
    another.append(message(1, id=0, speed=1.0))
    assert made(query, message(id=0), another) == [{"id": 0, "mean": 1.0, "n": 1}]


def test_the_messages_own_numbers_its_text_and_what_is_nested() -> None:
    query = Query(
        "SELECT publisher, seq, sent_ns, at ->> '$.x' AS x, json_extract(payload, '$.at.y') AS y FROM message"
    )
    assert made(query, message(3, at={"x": 1, "y": [2]})) == [
        {"publisher": 5, "seq": 3, "sent_ns": 9, "x": 1, "y": "[2]"}
    ]


def test_a_quoted_name_is_a_field_and_never_a_string() -> None:
    query = Query("""SELECT "how fast" AS v, 'a "quoted" text' AS text FROM message -- "no" field""")
    assert query.fields == ("how fast",)
    assert made(query, message(**{"how fast": 3})) == [{"v": 3, "text": 'a "quoted" text'}]
    assert made(query, message()) == [{"v": None, "text": 'a "quoted" text'}]


@pytest.mark.parametrize("text", [b"[1]", b"nonsense", b"\xff", b"3"])
def test_a_message_that_is_no_object_is_an_error(text: bytes) -> None:
    with pytest.raises(ProcessorError, match="not a JSON object"):
        Query("SELECT id FROM message")(Message("t", text, 1, 1, 0), Spool())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a SELECT"),
        ("SELEC x", "syntax error"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("DELETE FROM spool", "not authorized"),
        ("ATTACH 'x' AS y", "not authorized"),
        ("PRAGMA user_version", "not authorized"),
        ("SELECT load_extension('x')", "not authorized"),
        ("SELECT * FROM other", "no such table"),
        ("SELECT speed FROM message, spool", "ambiguous"),
        ("SELECT whatever(speed) FROM message", "no such function"),
    ],
)
def test_what_is_not_one_query_over_the_two_tables_is_refused(text: str, why: str) -> None:
    with pytest.raises(ProcessorError, match=why):
        Query(text)
