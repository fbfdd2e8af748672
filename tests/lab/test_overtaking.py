"""Markers that overtake messages on real servers."""

import pytest

from nearcast.lab.experiment import silent
from nearcast.lab.live import overtaking
from nearcast.lab.live.overtaking import measure


@pytest.mark.parametrize("kind", ["nats", "redis"])
def test_every_message_and_its_marker_are_seen_by_all(kind: str) -> None:
    found = measure(kind, 20, 3, 0.0, silent)
    assert (found.fanout, found.trials, found.messages) == (20, 3, 20 * 3 * 16)
    assert found.overtaken <= 3
    assert len(found.late_s) < found.messages / 2
    if kind == "redis":
        assert found.late_s == [], "one thread hands on one message after the other"


def test_who_gets_the_marker_first_is_counted_with_how_late_the_message_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overtaking, "_BURST", 1)
    times_s = iter([10.0, 10.5, 11.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times_s))
    audience = overtaking._Audience(2)
    audience.expect(7)
    message, marker = overtaking._NUMBER.pack(b"m", 7), overtaking._NUMBER.pack(b"k", 7)
    audience.receive(0, marker)
    audience.receive(0, message)
    audience.receive(1, message)
    assert not audience.complete.is_set()
    audience.receive(1, marker)
    assert audience.complete.is_set()
    assert audience.late_s == [0.5]
