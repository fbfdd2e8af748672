"""Windows that follow each other, and executions that are late."""

import pytest

from nearcast.domain.execution import RECENT, Execution, Failure, Keys, Progress, Schedule, Window

CREATED = Progress((Execution(0, 100.0, {"reports": Window(7, 7)}),))


def test_what_was_there_when_the_channel_was_created_is_not_new() -> None:
    assert CREATED.windows({"reports": 7}) == {"reports": Window(7, 7)}
    assert CREATED.windows({"reports": 9}) == {"reports": Window(7, 9)}


def test_every_window_begins_where_the_one_before_ended_and_a_failed_one_is_not_used_up() -> None:
    first = CREATED.starting().committed(Execution(1, 110.0, CREATED.windows({"reports": 9})))
    failed = first.starting().failed(Failure(120.0, "no memory", first.windows({"reports": 12})))
    assert failed.windows({"reports": 13}) == {"reports": Window(9, 13)}
    assert failed.last.number == 1
    assert failed.failures[-1].reason == "no memory"
    with pytest.raises(ValueError, match="execution 3 where 2 was started"):
        failed.committed(Execution(3, 130.0))
    assert failed.starting().committed(Execution(3, 130.0)).last.number == 3, (
        "nobody gets the number of one that failed"
    )


def test_who_subscribes_now_is_seen_by_all_executions_after_the_one_that_has_started() -> None:
    assert CREATED.settled == 0
    assert CREATED.starting().settled == 1
    assert CREATED.starting().committed(Execution(1, 110.0)).settled == 1


def test_old_executions_are_put_aside_and_numbers_go_on() -> None:
    progress = CREATED
    for number in range(1, 2 * RECENT):
        assert not progress.full
        progress = progress.starting().committed(Execution(number, 100.0 + number))
    assert progress.full
    shorter = progress.put_aside("older", "keys").expired(5)
    assert [each.number for each in shorter.executions] == list(range(RECENT, 2 * RECENT))
    assert (shorter.older, shorter.keys, shorter.floor) == ("older", Keys("keys", 2 * RECENT - 1), 5)


def test_an_execution_that_outlasts_its_period_delays_the_next() -> None:
    late_s, then = Schedule(100.0, 10.0).begun(100.0)
    assert (late_s, then.due_s) == (0.0, 110.0)
    late_s, then = then.begun(114.0)
    assert (late_s, then.due_s) == (4.0, 120.0)
    late_s, then = then.begun(151.0)
    assert (late_s, then.due_s) == (31.0, 161.0)
