"""Processors as they are called: Python by name, and a worker's answers."""

import pytest

from nearcast.control.spool import Spool
from nearcast.domain.errors import ProcessorError
from nearcast.domain.message import Message
from nearcast.domain.processor import Language, Processor
from nearcast.processing.calls import load, payloads_of
from nearcast.processing.worker import Load, Run, Worker

MESSAGE = Message("t", b"x", 1, 1, 0)


def python(code: str, spool: int = 0) -> Processor:
    return Processor(Language.PYTHON, code, spool)


def count(_message: Message, spool: list[Message]) -> bytes:
    return b",".join(each.payload for each in spool)


def explode(_message: Message, _spool: list[Message]) -> bytes:
    raise RuntimeError("boom")


def test_a_callable_is_found_by_name_and_a_factory_gets_its_numbers() -> None:
    assert load(python("nearcast.processing.samples:passed_on"))(MESSAGE, Spool()) == (b"x",)
    assert load(python("nearcast.testing:busy(0.01)"))(MESSAGE, Spool()) == (b"x",)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("no.such.module:f", "ModuleNotFoundError"),
        ("nearcast.processing.samples:nothing", "AttributeError"),
        ("nearcast.processing.samples:busy()", "TypeError"),
        ("nearcast.processing.samples:__doc__", "cannot be called"),
    ],
)
def test_what_cannot_be_loaded_says_why(code: str, what: str) -> None:
    with pytest.raises(ProcessorError, match=what):
        load(python(code))


def test_what_a_processor_may_return() -> None:
    assert payloads_of(None) == ()
    assert payloads_of(b"a") == (b"a",)
    assert payloads_of(MESSAGE) == (b"x",)
    assert payloads_of([b"a", MESSAGE]) == (b"a", b"x")
    for wrong in (3, "text", {"a": 1}, [b"a", None]):
        with pytest.raises(ProcessorError, match="expected bytes"):
            payloads_of(wrong)


def test_a_worker_keeps_spools_by_differences_and_begins_anew_when_told() -> None:
    worker = Worker()
    made = python(f"{__name__}:count", spool=2)
    old = [Message("t", b"%d" % number, 1, number, 0) for number in range(4)]
    assert worker.answer(Run(made, MESSAGE, 2, old[:2])).results == (b"0,1",)
    assert worker.answer(Run(made, MESSAGE, 3, old[2:3], fresh=False)).results == (b"1,2",)
    assert worker.answer(Run(made, MESSAGE, 1, old[3:], fresh=True)).results == (b"3",)


def test_a_worker_tells_what_was_raised_and_goes_on() -> None:
    worker = Worker()
    assert worker.answer(Run(python(f"{__name__}:explode"), MESSAGE, 0, [])).error == "RuntimeError: boom"
    assert "cannot be loaded" in worker.answer(Load(python("no.such:f"))).error
    assert worker.answer(Load(python(f"{__name__}:count"))).error == ""
    assert worker.answer(Run(python(f"{__name__}:count"), MESSAGE, 0, [])).results == (b"",)
