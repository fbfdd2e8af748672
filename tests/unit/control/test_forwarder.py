"""One topic at one agent: what it forwards where, whom it tells what, and when its broker is quiet."""

import math

import msgspec
import pytest

from nearcast.control.forwarder import Forwarder
from nearcast.control.instructions import Answer, Attach, Detach, Instruction, Reply, Say, Send
from nearcast.control.timing import Timing
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import (
    Ack,
    Ask,
    Beat,
    Broken,
    Bye,
    Generation,
    Gone,
    Hello,
    Launch,
    Marker,
    OnTopic,
    Prepare,
    Quiet,
    Release,
    Switch,
    Tell,
    Welcome,
)
from nearcast.wire.envelope import END, Envelope, Trail, notice

TIMING = Timing()
OLD = Route(1, Strategy.SINGLE, ("H0",))
NEW = Route(2, Strategy.SINGLE, ("H1",))
PREPARE = Prepare("t", 3, 2, (OLD, NEW), 1, ())


def resting() -> Forwarder:
    """Of H0, where the topic rests with epoch 1; one subscriber and publisher 7 are known."""
    one = Forwarder("t", "H0", 5, OLD, timing=TIMING)
    one.hello(hello("S", 0), 0.0)
    one.hello(hello("P", 7), 0.0)
    return one


def hello(client: str, publisher: int, *, epoch: int = 1, attached: bool = True) -> Hello:
    return Hello("t", client, publisher, epoch, attached, 0.0, 0)


def prepared() -> Forwarder:
    one = resting()
    one.prepare(PREPARE, 1.0, fresh=False)
    one.subscribed(1.1)
    return one


def told() -> Forwarder:
    one = prepared()
    one.tell(Tell("t", 3, 2, ()), 2.0)
    return one


def message(seq: int = 1, *, epoch: int = 1, flags: int = 0, trail: Trail | None = None) -> Envelope:
    return Envelope(flags, 7, seq, epoch, 0, 1, 0, b"m", trail)


def sends(instructions: list[Instruction]) -> list[tuple[str, tuple[str, ...]]]:
    """Where forwards go, and the brokers that they say they have been to."""
    out = [each for each in instructions if isinstance(each, Send) and each.envelope.trail]
    return [(each.broker, each.envelope.trail.visited) for each in out if each.envelope.trail]


def notices(instructions: list[Instruction], kind: type[OnTopic]) -> list[str]:
    return [each.broker for each in instructions if isinstance(each, Send) and isinstance(each.envelope.notice, kind)]


def acked(instructions: list[Instruction]) -> list[str]:
    sent = [each.message for each in instructions if isinstance(each, Answer)]
    return [each.of for each in sent if isinstance(each, Ack)]


# Commands


def test_it_is_prepared_once_its_own_subscription_is_confirmed() -> None:
    one = resting()
    assert one.prepare(PREPARE, 1.0, fresh=False) == [Attach("H0")]
    assert acked(one.subscribed(1.1)) == ["prepare"]


def test_prepared_it_forwards_but_tells_nobody_of_the_new_route() -> None:
    one = prepared()
    assert sends(one.frame(message(), 1.2)) == [("H1", ("H0", "H1"))]
    (reply,) = one.hello(hello("S", 0), 1.3)
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, Welcome)
    assert reply.message.route == OLD


def test_told_eagerly_it_tells_everybody_on_the_topic_and_publishers_in_person() -> None:
    one = prepared()
    out = one.tell(Tell("t", 3, 2, ()), 2.0)
    assert notices(out, Switch) == ["H0"]
    replies = [each for each in out if isinstance(each, Reply)]
    assert [each.client for each in replies] == ["P"]
    assert acked(out) == ["tell"]


def test_told_lazily_it_waits_for_the_first_publication() -> None:
    one = prepared()
    out = one.tell(Tell("t", 3, 2, (), eager=False), 2.0)
    assert notices(out, Switch) == []
    assert not [each for each in out if isinstance(each, Reply)]
    assert notices(one.frame(message(1), 2.1), Switch) == ["H0"]
    assert notices(one.frame(message(2), 2.2), Switch) == []


def test_told_before_its_subscription_is_confirmed_it_waits_with_both() -> None:
    one = resting()
    one.prepare(PREPARE, 1.0, fresh=False)
    assert one.tell(Tell("t", 3, 2, ()), 1.0) == []
    assert acked(one.subscribed(1.1)) == ["prepare", "tell"]


def test_a_command_said_again_is_acknowledged_again_and_tells_nobody_twice() -> None:
    out = told().tell(Tell("t", 3, 2, ()), 3.0)
    assert acked(out) == ["tell"]
    assert notices(out, Switch) == []


def test_released_it_leaves_and_forwards_no_more() -> None:
    one = told()
    out = one.release(Release("t", 3, 2))
    assert Detach("H0") in out
    assert acked(out) == ["release"]
    assert sends(one.frame(message(), 9.0)) == []


def test_a_homed_route_keeps_forwarding_after_its_release() -> None:
    one = resting()
    homed = Route(2, Strategy.HOMED, ("H0", "H1"))
    one.prepare(Prepare("t", 3, 2, (OLD, homed), 1, ()), 1.0, fresh=False)
    one.subscribed(1.1)
    one.tell(Tell("t", 3, 2, ()), 1.2)
    assert Detach("H0") not in one.release(Release("t", 3, 2))
    assert sends(one.frame(message(epoch=2), 9.0)) == [("H1", ("H0", "H1"))]


# Forwarding


def test_a_message_is_not_carried_back_to_where_it_has_been() -> None:
    came_from_there = Trail("H1", 1, 1, 2, ("H1", "H0"))
    assert told().frame(message(epoch=2, trail=came_from_there), 3.0) == []


def test_a_forward_of_an_agent_that_knew_less_goes_on_to_the_rest() -> None:
    one = told()
    third = Route(3, Strategy.SINGLE, ("H2",))
    one.prepare(Prepare("t", 3, 3, (OLD, NEW, third), 2, ()), 4.0, fresh=False)
    knew_two = Trail("H1", 1, 1, 2, ("H1", "H0"))
    assert sends(one.frame(message(epoch=2, trail=knew_two), 5.0)) == [("H2", ("H1", "H0", "H2"))]


def test_frames_of_one_path_are_counted_in_one_session() -> None:
    one = prepared()
    trails = []
    for seq in (1, 2):
        (send,) = one.frame(message(seq), 1.2)
        assert isinstance(send, Send)
        assert send.envelope.trail is not None
        trails.append((send.envelope.trail.session, send.envelope.trail.count))
    assert trails[0][0] == trails[1][0]
    assert [count for _, count in trails] == [1, 2]


def test_its_own_switch_and_beats_are_not_forwarded() -> None:
    one = told()
    assert one.frame(notice(Switch("t", NEW, ("H0", "H1"), 1), 2), 2.1) == []
    assert one.frame(notice(Beat("t"), 2), 2.1) == []


def test_a_marker_that_came_back_over_its_own_broker_goes_over_every_path() -> None:
    assert sends(told().frame(notice(Marker("t", "H0", 5, 1, "H0", ()), 2), 3.0)) == [("H1", ("H0", "H1"))]


def test_an_end_is_forwarded_and_told_with_the_next_marker() -> None:
    one = told()
    assert sends(one.frame(message(4, flags=END), 3.0)) == [("H1", ("H0", "H1"))]
    (marker,) = one.launch(Launch("t", "H1", 8, 1))
    assert isinstance(marker, Send)
    assert marker.envelope.notice == Marker("t", "H1", 8, 1, "H0", ((7, 4, ("H0",)),), (1,))


def test_an_end_is_told_with_all_the_brokers_that_its_publisher_sent_to() -> None:
    """What it sent to another of them itself may still be under way there."""
    several = Route(1, Strategy.ALL_PUBLISHERS, ("H0", "H2"))
    one = Forwarder("t", "H0", 5, several, timing=TIMING)
    one.prepare(Prepare("t", 3, 2, (several, NEW), 1, ()), 1.0, fresh=False)
    one.subscribed(1.1)
    one.frame(message(4, flags=END), 3.0)
    (marker,) = one.launch(Launch("t", "H1", 8, 1))
    assert isinstance(marker, Send)
    assert marker.envelope.notice == Marker("t", "H1", 8, 1, "H0", ((7, 4, ("H0", "H2")),), (1,))


def test_an_idle_path_shows_its_counter_with_every_beat() -> None:
    one = prepared()
    assert one.wake_s() <= 1.0 + TIMING.beat_s
    assert notices(one.tick(1.0 + TIMING.beat_s), Beat) == ["H1"]


# Clients


def test_a_publisher_that_does_not_know_the_route_is_told_once_with_its_message() -> None:
    one = prepared()
    one.tell(Tell("t", 3, 2, (), eager=False), 2.0)
    replies = [each for each in one.frame(message(1), 2.1) if isinstance(each, Reply)]
    assert [each.client for each in replies] == ["P"]
    assert not [each for each in one.frame(message(2), 2.2) if isinstance(each, Reply)]


def test_a_publisher_that_vanishes_is_told_to_everybody_and_a_subscriber_is_not() -> None:
    one = resting()
    assert one.wake_s() == TIMING.lease_s
    out = one.tick(TIMING.lease_s)
    assert out == [Send("H0", notice(Gone("t", 7), 1))]


def test_who_says_goodbye_is_not_missed() -> None:
    one = resting()
    one.bye(Bye("t", "P", 7))
    assert one.tick(TIMING.lease_s) == []


def test_who_only_asks_is_not_missed_either() -> None:
    one = Forwarder("t", "H0", 5, OLD, timing=TIMING)
    one.hello(hello("S", 0, attached=False), 0.0)
    assert one.wake_s() == math.inf


def test_markers_asked_for_together_share_a_generation() -> None:
    one = told()
    answers = [*one.ask(Ask("t", "A"), 3.0), *one.ask(Ask("t", "B"), 3.01)]
    granted = [each.message for each in answers if isinstance(each, Reply)]
    waits_s = [each.in_s for each in granted if isinstance(each, Generation)]
    merged_s = TIMING.merge_s + TIMING.merge_client_s * len(one.clients.entries) * 2  # sources
    assert waits_s == pytest.approx([merged_s, merged_s - 0.01])
    first = Generation("t", 2, "H0", 5, 1, ("H0", "H1"))
    assert [msgspec.structs.replace(each, in_s=0.0) for each in granted] == [first] * 2
    out = one.tick(3.0 + merged_s)
    assert notices(out, Marker) == ["H0"]
    assert Say("H1", Launch("t", "H0", 5, 1)) in out
    (later,) = one.ask(Ask("t", "C"), 4.0)
    assert isinstance(later, Reply)
    assert isinstance(later.message, Generation)
    assert later.message.generation == 2


def test_a_crowd_that_hears_every_marker_is_given_fewer() -> None:
    one = told()
    for number in range(250):
        one.hello(Hello("t", f"c{number}", 0, 2, attached=True, asked_s=2.0, ring_version=1), 2.0)
    one.ask(Ask("t", "c0"), 3.0)
    assert notices(one.tick(3.4), Marker) == []
    assert one.ask(Ask("t", "c1"), 3.45)
    assert notices(one.tick(3.6), Marker) == ["H0"]


def test_no_crowd_waits_longer_for_its_markers_than_it_takes_to_ask_again() -> None:
    one = told()
    for number in range(5000):
        one.hello(Hello("t", f"c{number}", 0, 2, attached=True, asked_s=2.0, ring_version=1), 2.0)
    one.ask(Ask("t", "c0"), 3.0)
    assert notices(one.tick(3.0 + TIMING.retry_s), Marker) == ["H0"]


# Quiet


def quiet_at(one: Forwarder, now: float) -> bool:
    return Answer(Quiet("t", "H0", 2)) in one.tick(now)


def test_a_broker_is_quiet_two_leases_after_the_last_who_did_not_know() -> None:
    one = told()
    one.bye(Bye("t", "S", 0))
    one.hello(hello("P", 7, epoch=2), 2.5)
    assert not quiet_at(one, 1.9 + TIMING.quiet_s)
    one.hello(hello("P", 7, epoch=2), 2.0 + TIMING.quiet_s)
    assert quiet_at(one, 2.0 + TIMING.quiet_s)


def test_a_message_of_an_older_epoch_starts_the_quiet_anew() -> None:
    one = told()
    one.bye(Bye("t", "S", 0))
    one.bye(Bye("t", "P", 7))
    one.frame(message(epoch=1), 10.0)
    assert not quiet_at(one, 2.0 + TIMING.quiet_s)
    assert quiet_at(one, 10.0 + TIMING.quiet_s)


def test_a_client_of_an_older_epoch_keeps_a_broker_from_being_quiet() -> None:
    one = told()
    one.bye(Bye("t", "P", 7))
    one.hello(hello("S", 0, epoch=1), 1.5 + TIMING.quiet_s)
    assert not quiet_at(one, 2.0 + TIMING.quiet_s)


def test_quiet_is_said_again_until_it_is_released() -> None:
    one = told()
    for client, publisher in (("S", 0), ("P", 7)):
        one.bye(Bye("t", client, publisher))
    first_s = 2.0 + TIMING.quiet_s
    assert quiet_at(one, first_s)
    assert not quiet_at(one, first_s + 0.1)
    assert quiet_at(one, first_s + TIMING.renew_s)


# Connections


def test_while_a_peer_is_away_frames_are_kept_and_sent_again_when_it_is_back() -> None:
    one = prepared()
    one.frame(message(1), 1.2)
    one.peer_lost("H1")
    assert one.frame(message(2), 1.3) == []
    again = [each.envelope.seq for each in one.peer_restored("H1") if isinstance(each, Send)]
    assert again == [1, 2]


def test_a_path_that_cannot_be_made_whole_starts_a_new_session_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.control.paths.MOST_UNCONFIRMED", 2)
    one = prepared()
    before = one.paths["H1"].session
    one.peer_lost("H1")
    for seq in range(1, 5):
        one.frame(message(seq), 1.3)
    assert notices(one.peer_restored("H1"), Broken) == ["H1"]
    assert one.paths["H1"].session != before


def test_back_at_its_own_broker_it_says_that_its_paths_may_lack_something() -> None:
    assert notices(prepared().own_restored(), Broken) == ["H1"]
    assert resting().own_restored() == []


def test_what_it_hears_first_after_its_own_broker_was_away_goes_out_behind_the_word_that_something_may_lack() -> None:
    one = prepared()
    one.frame(message(1), 1.2)
    one.own_lost()
    sent = [each.envelope for each in one.frame(message(9), 1.9) if isinstance(each, Send)]
    assert [type(each.notice) for each in sent] == [Broken, type(None)]
    assert [each.envelope.seq for each in one.frame(message(10), 1.9) if isinstance(each, Send)] == [10]


def test_started_anew_it_says_so_before_any_other_frame_of_its_paths() -> None:
    one = Forwarder("t", "H0", 6, OLD, timing=TIMING)
    first = one.prepare(Prepare("t", 3, 2, (OLD, NEW), 2, ()), 1.0, fresh=True)
    assert notices(first, Broken) == ["H1"]
    [(_, frame)] = [(each.broker, each.envelope) for each in first if isinstance(each, Send)]
    assert frame.trail is not None
    assert frame.trail.count == 1


def test_started_anew_in_the_middle_of_a_transition_it_says_so_over_every_path() -> None:
    one = Forwarder("t", "H0", 6, OLD, timing=TIMING)
    one.prepare(Prepare("t", 3, 2, (OLD, NEW), 2, ()), 1.0, fresh=True)
    assert notices(one.subscribed(1.1), Broken) == ["H1"]


def test_started_anew_before_anybody_was_told_there_is_nothing_to_say() -> None:
    one = Forwarder("t", "H1", 6, OLD, timing=TIMING)
    one.prepare(PREPARE, 1.0, fresh=True)
    assert notices(one.subscribed(1.1), Broken) == []


def test_cut_off_from_its_own_broker_it_does_not_beat_as_if_it_heard() -> None:
    one = told()
    beat_s = 1.0 + TIMING.beat_s
    assert notices(one.tick(beat_s, broker_up=False), Beat) == []
    assert notices(one.tick(beat_s + TIMING.beat_s), Beat) == ["H1"]


def test_a_publisher_that_is_told_to_publish_here_is_missed_here_from_then_on() -> None:
    one = resting()
    (reply,) = one.hello(hello("Q", 8, epoch=0, attached=False), 0.0)
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, Welcome)
    assert reply.message.registered == "H0"
    gone = notices([each for now in (TIMING.lease_s, 2 * TIMING.lease_s) for each in one.tick(now)], Gone)
    assert gone == ["H0", "H0"], "both publishers"


def test_one_that_is_sent_elsewhere_is_not_registered() -> None:
    one = told()
    (reply,) = one.hello(hello("Q", 8, epoch=0, attached=False), 2.0)
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, Welcome)
    assert (reply.message.route, reply.message.registered) == (NEW, "")
