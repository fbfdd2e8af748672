"""A forwarding path is a session with a counter: both of its ends."""

import pytest

from nearcast.control import paths
from nearcast.control.paths import Inbound, Outbound
from nearcast.wire.envelope import Envelope, Trail

MESSAGE = Envelope(0, 7, 1, 1, 0, 1, 0, b"m")


def sent(path: Outbound) -> int:
    trail = path.frame(MESSAGE, 2, ("H0", "H1")).trail
    assert trail is not None
    return trail.count


def trail(count: int, session: int = 5) -> Trail:
    return Trail("H0", session, count, 1, ("H0", "H1"))


def test_frames_are_numbered_and_say_where_they_have_been() -> None:
    path = Outbound("H0", 5)
    framed = path.frame(MESSAGE, 2, ("H0", "H1"))
    assert framed.trail == Trail("H0", 5, 1, 2, ("H0", "H1"))
    assert framed.payload == b"m"
    assert sent(path) == 2


def test_frames_are_kept_until_they_are_confirmed() -> None:
    path = Outbound("H0", 5)
    for _ in range(3):
        sent(path)
    path.confirmed(2)
    assert [each.trail.count for each in path.unconfirmed if each.trail] == [3]
    assert path.pending
    path.confirmed(3)
    assert not path.pending


def test_a_late_confirmation_takes_nothing_back() -> None:
    path = Outbound("H0", 5)
    for _ in range(3):
        sent(path)
    path.confirmed(3)
    path.confirmed(1)
    assert path.confirmed_count == 3


def test_a_path_that_is_down_waits_for_no_confirmation() -> None:
    path = Outbound("H0", 5)
    sent(path)
    path.up = False
    assert not path.pending


def test_a_path_is_whole_until_it_had_to_forget_what_was_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "MOST_UNCONFIRMED", 2)
    path = Outbound("H0", 5)
    whole = []
    for _ in range(3):
        sent(path)
        whole.append(path.whole)
    path.confirmed(1)  # what was forgotten had arrived after all
    assert [*whole, path.whole] == [True, True, False, True]


def test_frames_in_order_follow() -> None:
    path = Inbound(trail(4), 0.0)
    assert path.follows(trail(5), 1.0)
    assert path.follows(trail(6), 2.0)
    assert path.heard_s == 2.0


def test_a_frame_sent_again_follows_and_moves_nothing() -> None:
    path = Inbound(trail(4), 0.0)
    assert path.follows(trail(3), 1.0)
    assert path.follows(trail(5), 1.0)


def test_a_missing_frame_is_noticed_once() -> None:
    path = Inbound(trail(4), 0.0)
    assert not path.follows(trail(6), 1.0)
    assert path.follows(trail(7), 1.0)


def test_another_session_is_whole_from_its_first_frame() -> None:
    path = Inbound(trail(4), 0.0)
    assert path.follows(trail(1, session=6), 1.0)
    assert path.follows(trail(2, session=6), 1.0)


def test_another_session_whose_first_frame_is_missing_is_noticed_once() -> None:
    path = Inbound(trail(4), 0.0)
    assert not path.follows(trail(2, session=6), 1.0)
    assert path.follows(trail(3, session=6), 1.0)
