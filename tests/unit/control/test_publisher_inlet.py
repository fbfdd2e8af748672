"""A publisher of a topic that gets a processor, or loses it: another subject is another leg."""

from dataclasses import replace

import pytest

from nearcast.control.instructions import Send
from nearcast.control.publisher import Publisher
from nearcast.control.timing import Timing
from nearcast.domain.processor import Language, Processor
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Hold, Welcome
from nearcast.wire.envelope import END

TIMING = Timing()
PROCESSOR = Processor(Language.PYTHON, "m:f")


def welcome(epoch: int, processor: Processor | None) -> Welcome:
    route = Route(epoch, Strategy.SINGLE, ("H0",), processor)
    return Welcome("t", route, ("H0",), 1, (), TIMING.lease_s, 0.0, 0, (), publisher=7, registered="H0")


@pytest.fixture
def publisher() -> Publisher:
    """On H0 since 0 s, epoch 1, processed, with two messages sent."""
    publisher = Publisher("t", 7, "P", Ring(("H0",)), timing=TIMING)
    publisher.tick(0.0)
    publisher.welcome(welcome(1, PROCESSOR), 0.0)
    for _ in range(2):
        publisher.publish(b"", 0.0, 0)
    return publisher


def sends(instructions: object) -> list[Send]:
    assert isinstance(instructions, list)
    return [each for each in instructions if isinstance(each, Send)]


def test_processing_begins_and_ends_with_a_leg_whose_end_goes_the_way_the_leg_went(publisher: Publisher) -> None:
    assert publisher.inlet
    (end,) = sends(publisher.welcome(welcome(2, None), 1.0))
    assert (end.inlet, end.envelope.flags, end.envelope.seq) == (True, END, 2)
    assert (publisher.inlet, publisher.first) == (False, 3)
    publisher.publish(b"", 1.0, 0)
    (end,) = sends(publisher.welcome(welcome(3, PROCESSOR), 2.0))
    assert (end.inlet, end.envelope.seq) == (False, 3)


def test_another_processor_is_no_other_leg(publisher: Publisher) -> None:
    assert not sends(publisher.welcome(welcome(2, replace(PROCESSOR, spool=3)), 1.0))
    assert publisher.publish(b"", 1.0, 0).epoch == 2


def test_what_is_sent_again_past_the_processor_does_not_claim_that_all_before_it_has_passed(
    publisher: Publisher,
) -> None:
    publisher.confirmed("H0", 1)
    publisher.welcome(welcome(2, None), 1.0)
    publisher.publish(b"", 1.0, 0)
    publisher.lost("H0")
    again = sends(publisher.restored("H0", 2.0))
    assert [(each.envelope.seq, each.envelope.first, each.inlet) for each in again] == [(2, 2, False), (3, 2, False)]
    publisher.lost("H0")
    assert [each.envelope.first for each in sends(publisher.restored("H0", 3.0))] == [2, 2]


def test_who_is_held_does_not_publish_until_it_is_let_go_or_the_time_is_over(publisher: Publisher) -> None:
    publisher.hold(Hold("t", 7, 1.0), 0.0)
    assert not publisher.can_publish(0.5)
    assert publisher.wake_s() <= 1.0
    assert publisher.can_publish(1.0)
    publisher.hold(Hold("t", 7, 1.0), 2.0)
    publisher.hold(Hold("t", 7, 0.0), 2.1)
    assert publisher.can_publish(2.1)
