"""Records in a message."""

import pytest

from nearcast.pipeline.topic_source import record_lines


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ('{"a": 1}', ['{"a": 1}']),
        ('{"a": 1}\n', ['{"a": 1}']),
        ('{"a": 1}\n{"a": 2}\r\n\n{"a": 3}', ['{"a": 1}', '{"a": 2}', '{"a": 3}']),
        ('{"a": 1}\nnonsense', ['{"a": 1}', "nonsense"]),
        ('{\n  "a": {}\n}', ['{\n  "a": {}\n}']),
        ('{"a": {}\n}', ['{"a": {}\n}']),
        ("", [""]),
        ("\n", ["\n"]),
        ("nonsense\n{}", ["nonsense\n{}"]),
    ],
)
def test_one_record_or_one_per_line(text: str, records: list[str]) -> None:
    assert record_lines(text) == records
