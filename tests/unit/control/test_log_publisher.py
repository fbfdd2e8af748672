"""A publisher of a persistent topic: every message in the log once, whatever becomes of acknowledgements and routes."""

from nearcast.control.instructions import Say
from nearcast.control.log_publisher import LogPublisher, Write
from nearcast.control.log_route import LogRoute
from nearcast.control.rules import ALL_ON
from nearcast.control.timing import Timing
from nearcast.domain.log import LogSpec, TopicLog
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Bye, Hello, Welcome
from nearcast.wire.record import MOST_RECORD_BYTES, Record

TIMING = Timing(lease_s=10.0)
RING = Ring(("H0", "H1"))
ME = 7


def welcome(epoch: int, broker: str, asked_s: float, *, registered: bool = True) -> Welcome:
    log = TopicLog("id", LogSpec(3))
    for each in range(1, epoch + 1):
        log = log.opened(each, broker if each == epoch else "H0")
    route = Route(epoch, Strategy.SINGLE, (broker,))
    known = broker if registered else ""
    return Welcome("t", route, (broker,), epoch, (), 10.0, asked_s, 0, (), publisher=ME, registered=known, log=log)


def publisher() -> LogPublisher:
    """At H0, known to the agent there since 0 s."""
    first = welcome(1, "H0", 0.0)
    return LogPublisher(LogRoute("t", ME, "c", RING, timing=TIMING, rules=ALL_ON, first=first))


def publish(machine: LogPublisher, *payloads: bytes) -> None:
    for payload in payloads:
        machine.publish(payload, 0)


def numbers(write: Write | None) -> list[int]:
    assert write is not None
    return [message.seq for message in write.record.messages]


def test_what_is_published_while_a_record_is_under_way_goes_into_the_next_one() -> None:
    machine = publisher()
    publish(machine, b"a")
    assert numbers(machine.write(1.0)) == [1]
    publish(machine, b"b", b"c")
    assert machine.write(1.0) is None
    machine.written(4, 1.1)
    assert machine.confirmed == 1
    following = machine.write(1.1)
    assert following is not None
    assert numbers(following) == [2, 3]
    assert (following.after, following.record.before, following.record.doubt) == (4, (1, 4), False)


def test_a_publisher_goes_on_behind_what_one_of_its_name_has_written() -> None:
    first = welcome(2, "H1", 0.0)
    here = LogPublisher(LogRoute("t", ME, "c", RING, timing=TIMING, rules=ALL_ON, first=first), 5, (2, 9))
    moved = LogPublisher(LogRoute("t", ME, "c", RING, timing=TIMING, rules=ALL_ON, first=first), 5, (1, 9))
    for machine, after in ((here, 9), (moved, 0)):
        assert machine.unconfirmed == 0
        publish(machine, b"f")
        write = machine.write(1.0)
        assert numbers(write) == [6]
        assert write is not None
        assert (write.after, write.record.before[1]) == (after, 9)


def test_a_record_is_no_larger_than_a_server_takes() -> None:
    machine = publisher()
    publish(machine, bytes(MOST_RECORD_BYTES // 2), bytes(MOST_RECORD_BYTES // 2), b"c")
    assert numbers(machine.write(1.0)) == [1]


def test_a_lost_acknowledgement_is_found_in_the_way_and_counts() -> None:
    machine = publisher()
    publish(machine, b"a", b"b")
    first = machine.write(1.0)
    assert first is not None
    machine.failed()
    publish(machine, b"c")
    again = machine.write(2.0)
    assert again is not None
    assert (numbers(again), again.after) == ([1, 2, 3], 0)
    machine.in_the_way(5, first.record, 2.1)
    assert machine.confirmed == 2
    rest = machine.write(2.2)
    assert rest is not None
    assert (numbers(rest), rest.after) == ([3], 5)


def test_what_was_not_written_is_written_again_behind_the_same_record_without_doubt() -> None:
    machine = publisher()
    publish(machine, b"a")
    machine.write(1.0)
    machine.failed()
    again = machine.write(2.0)
    assert again is not None
    assert not again.record.doubt
    machine.written(9, 2.1)
    assert machine.confirmed == 1


def test_a_record_that_retention_removed_is_not_waited_for() -> None:
    machine = publisher()
    publish(machine, b"a")
    machine.write(1.0)
    machine.written(3, 1.1)
    publish(machine, b"b")
    machine.write(5.0)
    machine.in_the_way(0, None, 5.1)
    again = machine.write(5.2)
    assert again is not None
    assert (numbers(again), again.after) == ([2], 0)


def test_nothing_is_written_before_the_agent_of_the_broker_knows_us() -> None:
    first = welcome(1, "H0", 0.0, registered=False)
    machine = LogPublisher(LogRoute("t", ME, "c", RING, timing=TIMING, rules=ALL_ON, first=first))
    publish(machine, b"a")
    assert machine.write(0.1) is None
    machine.welcome(welcome(1, "H0", 0.2), 0.3)
    assert numbers(machine.write(0.3)) == [1]


def test_nothing_is_written_without_a_lease() -> None:
    machine = publisher()
    publish(machine, b"a")
    assert machine.write(10.0) is None
    machine.welcome(welcome(1, "H0", 9.5), 10.1)
    assert numbers(machine.write(10.1)) == [1]


def test_an_acknowledgement_without_a_lease_counts_when_a_later_word_confirms_the_epoch() -> None:
    machine = publisher()
    publish(machine, b"a")
    machine.write(9.9)
    machine.written(3, 10.5)
    assert machine.confirmed == 0
    assert machine.write(10.6) is None
    machine.welcome(welcome(1, "H0", 10.2), 10.6)
    assert machine.confirmed == 0, "asked before it came: the segment may have been sealed in between"
    machine.welcome(welcome(1, "H0", 10.7), 10.8)
    assert machine.confirmed == 1


def test_an_acknowledgement_without_a_lease_counts_for_nothing_when_the_topic_has_moved() -> None:
    machine = publisher()
    publish(machine, b"a", b"b")
    machine.write(9.9)
    machine.written(3, 30.0)
    machine.welcome(welcome(2, "H1", 30.5), 30.6)
    assert machine.confirmed == 0
    again = machine.write(30.7)
    assert again is not None
    assert (numbers(again), again.epoch, again.broker, again.after) == ([1, 2], 2, "H1", 0)
    assert again.record.doubt, "it may stand in the old segment, before or behind the seal"
    machine.written(1, 30.8)
    assert machine.confirmed == 2


def test_a_record_under_way_while_the_topic_moves_counts_within_the_old_lease() -> None:
    machine = publisher()
    publish(machine, b"a")
    machine.write(5.0)
    machine.welcome(welcome(2, "H1", 5.1), 5.2)
    machine.written(3, 5.3)
    assert machine.confirmed == 1
    publish(machine, b"b")
    following = machine.write(5.4)
    assert following is not None
    assert (following.epoch, following.after, following.record) == (
        2,
        0,
        Record(following.record.messages, before=(1, 3)),
    )


def test_a_record_whose_fate_in_the_old_segment_is_not_known_is_written_to_the_new_one_in_doubt() -> None:
    machine = publisher()
    publish(machine, b"a")
    machine.write(1.0)
    machine.written(2, 1.1)
    publish(machine, b"b")
    machine.write(5.0)
    machine.welcome(welcome(2, "H1", 5.1), 5.2)
    machine.failed()
    again = machine.write(5.3)
    assert again is not None
    assert (numbers(again), again.epoch, again.record.before, again.record.doubt) == ([2], 2, (1, 2), True)
    machine.written(1, 5.4)
    publish(machine, b"c")
    after = machine.write(5.5)
    assert after is not None
    assert not after.record.doubt


def test_doubt_lasts_over_a_further_move() -> None:
    machine = publisher()
    publish(machine, b"a")
    machine.write(1.0)
    machine.welcome(welcome(2, "H1", 2.0), 2.1)
    machine.failed()
    machine.write(2.2)
    machine.welcome(welcome(3, "H0", 3.0), 3.1)
    machine.failed()
    again = machine.write(3.2)
    assert again is not None
    assert (again.epoch, again.record.doubt, again.record.before) == (3, True, (0, 0))


def test_a_new_epoch_is_written_to_only_once_the_agent_there_has_confirmed_it() -> None:
    machine = publisher()
    publish(machine, b"a")
    said = machine.welcome(welcome(2, "H1", float("-inf"), registered=False), 1.0)
    assert [type(each.message) for each in said if isinstance(each, Say)] == [Hello]
    assert machine.write(1.0) is None
    machine.welcome(welcome(2, "H1", 1.0), 1.1)
    assert numbers(machine.write(1.1)) == [1]


def test_who_moves_says_goodbye_where_it_was() -> None:
    machine = publisher()
    machine.route.tick(20.0)
    said = machine.welcome(welcome(2, "H1", 20.0), 20.1)
    messages = [(each.broker, type(each.message)) for each in said if isinstance(each, Say)]
    assert messages == [("H1", Hello), ("H0", Bye)]


def test_an_unanswered_question_is_asked_again() -> None:
    machine = publisher()
    route = machine.route
    assert route.wake_s() == TIMING.renew_s
    assert [each.broker for each in route.tick(TIMING.renew_s) if isinstance(each, Say)] == ["H0"]
    assert route.wake_s() == TIMING.renew_s + TIMING.retry_s
