"""Whether a promise was broken only between a cause and the end of its migration."""

from math import inf

import numpy as np
import pytest

from nearcast.lab.heard import Windows
from nearcast.lab.promised import Episode, Migration, episodes, migrations


def windows(**over: tuple[float, float]) -> Windows:
    at_s = np.arange(0.0, 60.0, 0.1)
    late_ms = np.full(len(at_s), 14.0)
    for from_s, to_s in over.values():
        late_ms[(at_s > from_s - 0.05) & (at_s < to_s - 0.05)] = 44.0
    return Windows(at_s, np.ones(len(at_s), dtype=np.int64), late_ms, late_ms)


def judged(found: Windows, *moved: Migration, causes_s: tuple[float, ...] = (0.0, 20.0)) -> list[Episode]:
    return episodes("t", causes_s, found, moved, bound_ms=40.0, window_s=0.1, settle_s=2.0, patience_s=10.0)


def test_a_promise_broken_until_the_topic_has_followed_is_within() -> None:
    begin, crossing = judged(windows(late=(20.0, 24.0)), Migration("t", 2, 23.0, 23.1, 43.0))
    assert (begin.over_s, begin.outside, begin.migrations) == (0.0, 0, ())
    assert crossing.over_s == pytest.approx(4.0, abs=0.11)
    assert crossing.outside == 0


def test_a_promise_broken_after_the_migration_is_outside() -> None:
    _, crossing = judged(windows(late=(20.0, 24.0), again=(30.0, 30.5)), Migration("t", 2, 23.0, 23.1, 43.0))
    assert crossing.outside == 5
    assert crossing.over_s == pytest.approx(10.5, abs=0.11)


def test_a_migration_that_nobody_was_told_of_has_no_end() -> None:
    _, crossing = judged(windows(late=(20.0, 50.0)), Migration("t", 2, 23.0))
    assert crossing.outside == 0
    assert crossing.over_s == pytest.approx(30.0, abs=0.11)


def test_without_a_migration_a_promise_may_be_broken_for_as_long_as_one_may_take() -> None:
    _, crossing = judged(windows(late=(20.0, 33.0)))
    assert crossing.outside == pytest.approx(30, abs=1)


def test_a_window_belongs_to_the_last_cause_before_its_end() -> None:
    before, after = judged(windows(late=(20.1, 20.2)), causes_s=(0.0, 20.15))
    assert (before.over_s, after.over_s > 0.0) == (0.0, True)


def test_others_migrations_excuse_nothing() -> None:
    _, crossing = judged(windows(late=(20.0, 35.0)), Migration("other", 2, 33.0, 34.0, 60.0))
    assert crossing.migrations == ()
    assert crossing.outside > 0


def test_migrations_are_read_from_the_notes_of_a_history() -> None:
    events = [
        ("move", 1.0, "t", 2, "preparing"),
        ("move", 1.5, "t", 2, "told"),
        ("move", 1.6, "t", 2, "told"),
        ("fault", 2.0, "x"),
        ("move", 9.0, "t", 2, "done"),
        ("move", 9.5, "t", 3, "preparing"),
        ("move", 9.9, "u", 1, "done"),
    ]
    assert migrations(events) == [Migration("t", 2, 1.0, 1.5, 9.0), Migration("t", 3, 9.5, inf, inf)]
