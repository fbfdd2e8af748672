"""What could not be read: counted, logged once per source, bounded."""

import logging

import pytest

from nearcast.domain.errors import MalformedEnvelope
from nearcast.wire import rejects as module
from nearcast.wire.rejects import Rejects


def unreadable() -> int:
    raise MalformedEnvelope("seven bytes of nothing")


def test_what_can_be_read_is_returned_and_not_counted() -> None:
    rejects = Rejects()
    assert rejects.read(lambda: 5, "a") == 5
    assert rejects.count == 0


def test_what_cannot_be_read_is_none_and_counted_by_source() -> None:
    rejects = Rejects()
    for source in ("a", "a", "b"):
        assert rejects.read(unreadable, source) is None
    assert rejects.count == 3
    assert rejects.by_source == {"a": 2, "b": 1}


def test_a_source_is_logged_once_with_what_was_wrong(caplog: pytest.LogCaptureFixture) -> None:
    rejects = Rejects()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            rejects.read(unreadable, "topic a at H0")
        rejects.read(unreadable, "topic a at H1")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "topic a at H0" in said[0]
    assert "seven bytes of nothing" in said[0]
    assert "topic a at H1" in said[1]


def test_a_flood_of_sources_is_counted_but_neither_kept_nor_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_MOST_SOURCES", 2)
    rejects = Rejects()
    with caplog.at_level(logging.WARNING):
        for number in range(50):
            rejects.read(unreadable, f"source {number}")
        rejects.read(unreadable, "source 0")
    assert rejects.count == 51
    assert rejects.by_source == {"source 0": 2, "source 1": 1}
    assert len(caplog.records) == 2


def test_an_error_that_is_not_about_bytes_is_not_swallowed() -> None:
    def broken() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Rejects().read(broken, "a")
