"""What a procedure's statement does, and what is refused."""

import pytest

from nearcast.domain.channel import Parameter
from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import ChannelError
from nearcast.domain.procedure import Procedure, Verb
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.statement import parsed

DATASETS = tuple(Dataset(name, name, parse_schema("id INT, kind STRING")) for name in ("Reports", "old"))


def procedure(text: str, *parameters: str, period_s: float | None = None) -> Procedure:
    return parsed("it", text, tuple(map(Parameter.parse, parameters)), DATASETS, 0.0, period_s=period_s)


def test_what_is_inserted_keeps_its_lines_and_columns() -> None:
    text = "INSERT INTO TABLE old\nSELECT * FROM reports WHERE kind = :kind"
    found = procedure(text, "kind STRING")
    assert (found.verb, found.target, found.datasets) == (Verb.INSERT, "old", ("Reports",))
    assert found.query == " " * 21 + "\nSELECT * FROM reports WHERE kind = :kind"


def test_what_is_deleted_is_a_select_of_the_same_length() -> None:
    text = "DELETE FROM Reports r WHERE r.kind IN (SELECT kind FROM old)"
    found = procedure(text)
    assert (found.verb, found.target, found.datasets) == (Verb.DELETE, "Reports", ("old", "Reports"))
    assert found.query == text.replace("DELETE FROM", "SELECT*FROM")


def test_a_query_changes_nothing() -> None:
    assert (procedure("SELECT 1 AS one").verb, procedure("SELECT 1 AS one").target) == (Verb.QUERY, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT INTO\nnowhere SELECT 1 AS id", "line 2, column 1: no dataset 'nowhere'; datasets: Reports, old"),
        ("INSERT OVERWRITE old SELECT 1", "line 1, column 1: expected INSERT INTO DATASET SELECT"),
        ("INSERT INTO old\nSELECT id FROM nowhere", "line 2, column 16: no dataset 'nowhere'"),
        ("DELETE FROM old", "line 1, column 1: expected DELETE FROM DATASET WHERE"),
        ("DROP TABLE old", "line 1, column 1: expected a SELECT, found 'DROP'"),
        ("SELECT 1; SELECT 2", "line 1, column 9: one SELECT is expected"),
        ("SELECT id FROM old WHERE is_new(old)", "is_new is for channels"),
    ],
)
def test_an_error_names_the_procedure_line_and_column(text: str, message: str) -> None:
    with pytest.raises(ChannelError, match=f"^procedure it: {message}"):
        procedure(text)


def test_one_that_runs_by_itself_has_no_parameters() -> None:
    with pytest.raises(ChannelError, match="has nobody to give it parameters"):
        procedure("SELECT id FROM old WHERE kind = :kind", "kind STRING", period_s=60.0)
