import pickle
import timeit

import pytest

from nearcast.domain.errors import WireError
from nearcast.domain.report import Discontinuity, Gap
from nearcast.sim.history import FIELDS, History

PUBLISHER = 2**64 - 1


def one_of_each_event() -> History:
    history = History()
    history.subscribe_returned(0.0, 1, "plaza")
    history.publish_begun(0.1, PUBLISHER, "plaza", 0)
    history.publish_returned(0.1 + 0.2, PUBLISHER, "plaza", 0)
    history.delivered(0.4, 1, PUBLISHER, 0)
    history.unsequenced_delivered(0.5, 1)
    history.moved(0.6, "plaza", 2, "told")
    history.rehomed(0.65, "c1", "b2")
    history.fault(0.7, "broker b1 crashes, née b0")
    history.reported(0.8, 1, Gap("plaza", PUBLISHER, 1, None))
    history.reported(0.8, 1, Discontinuity("plaza", "b1", 0.25, None))
    history.unsubscribe_begun(0.9, 1)
    history.unsubscribe_closed(0.9, 1)
    history.crashed(1.0, 2)
    history.finished(1.5)
    return history


def test_a_history_that_was_written_is_read_back_event_by_event() -> None:
    history = one_of_each_event()
    assert {event[0] for event in history.events} == set(FIELDS)
    assert History.from_bytes(history.to_bytes()).events == history.events


def test_a_history_read_back_can_be_continued() -> None:
    history = History.from_bytes(one_of_each_event().to_bytes())
    history.fault(2.0, "more")
    assert history.events[-1] == ("fault", 2.0, "more")
    assert len(history) == len(one_of_each_event()) + 1


def test_a_pickled_history_can_be_continued() -> None:
    history = pickle.loads(pickle.dumps(one_of_each_event()))  # noqa: S301 our own bytes, as a worker process sends them
    history.fault(2.0, "more")
    assert history.events == [*one_of_each_event().events, ("fault", 2.0, "more")]


def test_equal_histories_give_equal_bytes_and_a_changed_event_changes_them() -> None:
    assert one_of_each_event().to_bytes() == one_of_each_event().to_bytes()
    other = one_of_each_event()
    other.events[3] = ("delivered", 0.4, 1, PUBLISHER, 1)
    assert other.to_bytes() != one_of_each_event().to_bytes()


def test_the_bytes_are_lines_that_a_person_can_read() -> None:
    history = History()
    history.delivered(0.1 + 0.2, 7, 3, 5)
    assert history.to_bytes() == b'{"format":"nearcast.history/1"}\n["delivered",0.30000000000000004,7,3,5]\n'


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "first line is nothing"),
        (b'{"format":"nearcast.history/9"}\n', "nearcast.history/9"),
        (b"\x93\x01", "not a history"),
        (b'{"format":"nearcast.history/1"}\n["exploded",1.0]\n', "line 2: .*exploded.* is no event"),
        (b'{"format":"nearcast.history/1"}\n["finished",1.0]\n["fault",1.0]\n', "line 3: .*fault, time_s, text"),
        (b'{"format":"nearcast.history/1"}\n{}\n', "line 2: .*is no event"),
    ],
)
def test_bytes_that_are_no_history_are_refused_with_the_line(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        History.from_bytes(data)


def test_recording_a_delivery_costs_less_than_a_microsecond() -> None:
    history = History()
    per_event_s = min(timeit.repeat(lambda: history.delivered(1.0, 2, 3, 4), number=10_000, repeat=5)) / 10_000
    assert per_event_s < 1e-6
