"""What a processor may be: the specification that travels with a topic's route."""

import pytest

from nearcast.domain.errors import ConfigError, TopicNameError
from nearcast.domain.processor import Language, Processor, dead_letter_topic


@pytest.mark.parametrize("code", ["module:function", "a.b.c:d.e", "nearcast.testing:busy(10)", "m:f(1.5, -2)", "m:f()"])
def test_a_callable_is_named_by_its_module_and_its_name(code: str) -> None:
    assert str(Processor(Language.PYTHON, code)) == code


@pytest.mark.parametrize("code", ["", "module", ":f", "m:", "m:f(x)", "m:f(open('x'))", "a b:c", "m:f;g", "1a:b"])
def test_what_names_no_callable_is_refused_with_what_was_expected(code: str) -> None:
    with pytest.raises(ConfigError, match=r"package\.module:function"):
        Processor(Language.PYTHON, code)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spool": -1}, "spool is -1"),
        ({"spool": 1_000_000}, "spool is 1000000"),
        ({"queue": 0}, "queue is 0"),
        ({"limit_ms": 0.0}, "limit is 0.0 ms"),
        ({"limit_ms": float("nan")}, "limit is nan ms"),
        ({"limit_ms": 1e9}, "at most 60000"),
    ],
)
def test_numbers_that_cannot_be_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Processor(Language.PYTHON, "m:f", **options)  # type: ignore[arg-type]  # of a test's own


def test_sql_is_neither_empty_nor_endless() -> None:
    for text in ("  ", "x" * 20_000):
        with pytest.raises(ConfigError, match="1 to 16384 bytes"):
            Processor(Language.SQL, text)


def test_a_topic_whose_dead_letters_would_have_no_name_has_none() -> None:
    assert dead_letter_topic("t") == "t.dead"
    with pytest.raises(TopicNameError):
        dead_letter_topic("t" * 198)
