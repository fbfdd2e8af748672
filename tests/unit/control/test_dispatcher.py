"""All topics of one agent: whom it answers, whom it obeys, and when it says that it is alive."""

import math

from nearcast.control.dispatcher import Dispatcher, Said
from nearcast.control.instructions import Answer, Attach, Reply, Send
from nearcast.control.timing import Timing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import (
    Ack,
    Alive,
    Ask,
    Bye,
    Frozen,
    Hello,
    Launch,
    Prepare,
    Release,
    Renew,
    RingChange,
    Tell,
    ToClient,
    Unsure,
    Welcome,
)
from nearcast.wire.dialect import NEWEST
from nearcast.wire.envelope import Envelope

TIMING = Timing()
RING = Ring(("H0", "H1"), version=1)
MINE, THEIRS = (next(name for name in map(str, range(99)) if RING.owner(name) == owner) for owner in ("H0", "H1"))
OLD = Route(1, Strategy.SINGLE, ("H0",))
NEW = Route(2, Strategy.SINGLE, ("H1",))


def agent(*, sure: bool = True) -> Dispatcher:
    """Of H0; with a lease from 0 s on, of term 3."""
    one = Dispatcher("H0", 5, RING, TIMING)
    if sure:
        one.message(Renew(3, 0.0, TIMING.lease_s, 1, RING.brokers), 0.0)
    return one


def hello(topic: str, *, epoch: int = 0, ring_version: int = 1, publisher: int = 0, attached: bool = True) -> Hello:
    return Hello(topic, "c", publisher, epoch, attached, 0.5, ring_version)


def prepare(topic: str = "t", *, term: int = 3) -> Prepare:
    return Prepare(topic, term, 2, (OLD, NEW), 1, ())


def answer(said: list[Said]) -> ToClient:
    ((_, reply),) = said
    assert isinstance(reply, Reply)
    assert reply.client == "c"
    return reply.message


def acks(said: list[Said]) -> list[tuple[str, int]]:
    sent = [each.message for _, each in said if isinstance(each, Answer)]
    return [(ack.of, ack.epoch) for ack in sent if isinstance(ack, Ack)]


# Clients


def test_an_agent_without_a_lease_answers_unsure() -> None:
    assert answer(agent(sure=False).message(hello(MINE, publisher=7), 1.0)) == Unsure(
        MINE, 0.5, 7, leased=False, ring_version=0, ring=()
    )


def test_an_agents_lease_counts_from_when_it_asked() -> None:
    one = agent()
    assert isinstance(answer(one.message(hello(MINE), TIMING.lease_s - 0.1)), Welcome)
    assert isinstance(answer(one.message(hello(MINE), TIMING.lease_s)), Unsure)


def test_a_topic_that_no_route_names_is_the_ring_owners() -> None:
    welcome = answer(agent().message(hello(MINE), 1.0))
    assert isinstance(welcome, Welcome)
    assert welcome.route == Route(0, Strategy.SINGLE, ("H0",))
    assert (welcome.asked_s, welcome.lease_s) == (0.5, TIMING.lease_s)


def test_an_agent_that_is_not_the_owner_does_not_say_that_no_route_names_a_topic() -> None:
    unsure = answer(agent().message(hello(THEIRS), 1.0))
    assert isinstance(unsure, Unsure)
    assert unsure.leased


def test_a_client_that_knows_more_than_the_agent_is_answered_unsure() -> None:
    assert isinstance(answer(agent().message(hello(MINE, epoch=4), 1.0)), Unsure)


def test_who_has_an_older_ring_is_given_the_present_one_with_every_answer() -> None:
    for topic in (MINE, THEIRS):
        for version, ring in ((0, ("H0", "H1")), (1, ())):
            told = answer(agent().message(hello(topic, ring_version=version), 1.0))
            assert isinstance(told, Welcome | Unsure)
            assert told.ring == ring


def test_a_goodbye_or_a_marker_for_a_topic_nobody_knows_is_ignored() -> None:
    one = agent()
    for message in (Bye("t", "c", 0), Ask("t", "c"), Launch("t", "H1", 1, 1)):
        assert one.message(message, 1.0) == []


# The coordinator


def test_a_command_of_an_older_term_is_ignored() -> None:
    one = agent()
    assert one.message(prepare(term=2), 1.0) == []
    assert one.message(RingChange(2, 9, ("H9",), True), 1.0) == []
    assert one.ring == RING
    assert "t" not in one.forwarders


def test_a_lease_of_an_older_term_is_ignored() -> None:
    one = agent()
    one.message(Renew(2, 50.0, TIMING.lease_s, 1, RING.brokers), 50.0)
    assert not one.sure(50.0)


def test_a_command_of_a_newer_term_ends_the_older_one() -> None:
    one = agent()
    one.message(prepare(term=4), 1.0)
    assert one.message(Tell("t", 3, 2, ()), 1.0) == []


def test_a_prepare_is_acknowledged_only_when_the_own_subscription_is_confirmed() -> None:
    one = agent()
    assert one.message(prepare(), 1.0) == [("t", Attach("H0"))]
    assert acks(one.subscribed("t", 1.1)) == [("prepare", 2)]


def test_a_prepare_said_again_is_acknowledged_again() -> None:
    one = agent()
    one.message(prepare(), 1.0)
    one.subscribed("t", 1.1)
    assert acks(one.message(prepare(), 2.0)) == [("prepare", 2)]


def test_told_of_a_topic_it_was_never_prepared_for_it_says_nothing() -> None:
    assert agent().message(Tell("t", 3, 2, ()), 1.0) == []


def test_released_from_a_topic_it_does_not_know_it_acknowledges() -> None:
    assert acks(agent().message(Release("t", 3, 2), 1.0)) == [("release", 2)]


def test_released_to_an_epoch_it_was_never_prepared_for_it_waits_to_be_caught_up() -> None:
    one = agent()
    one.message(hello(MINE), 1.0)  # it knows the ring's route, epoch 0
    assert one.message(Release(MINE, 3, 5), 1.0) == []
    assert isinstance(answer(one.message(hello(MINE), 1.0)), Welcome)


def test_a_topic_that_has_left_is_forgotten_unless_the_ring_sends_strangers_here() -> None:
    one = agent()
    for topic in (MINE, THEIRS):
        one.message(prepare(topic), 1.0)
        one.subscribed(topic, 1.1)
        assert acks(one.message(Release(topic, 3, 2), 2.0)) == [("release", 2)]
    assert list(one.forwarders) == [MINE]
    welcome = answer(one.message(hello(MINE), 2.0))
    assert isinstance(welcome, Welcome)
    assert welcome.route == NEW


def test_a_newer_ring_is_taken_with_a_lease_or_a_change_and_an_older_one_never() -> None:
    one = agent()
    one.message(Renew(3, 1.0, TIMING.lease_s, 2, ("H0", "H1", "H2")), 1.0)
    assert one.ring.version == 2
    one.message(RingChange(3, 3, ("H0", "H2"), True), 1.0)
    assert one.ring.brokers == ("H0", "H2")
    one.message(RingChange(3, 2, ("H0", "H1", "H2"), True), 1.0)
    assert one.ring.brokers == ("H0", "H2")


# Connections and time


def test_a_topic_learned_while_a_peer_is_away_sends_nothing_there_until_it_is_back() -> None:
    one = agent()
    one.peer_lost("H1")
    one.message(prepare(), 1.0)
    one.subscribed("t", 1.1)
    message = Envelope(0, 7, 1, 1, 0, 1, 0, b"m")
    assert one.frame("t", message, 1.2) == []
    ((topic, send),) = one.peer_restored("H1")
    assert topic == "t"
    assert isinstance(send, Send)
    assert (send.broker, send.envelope.payload) == ("H1", b"m")


def test_only_what_the_broker_confirmed_is_not_sent_again() -> None:
    one = agent()
    one.message(prepare(), 1.0)
    one.subscribed("t", 1.1)
    one.frame("t", Envelope(0, 7, 1, 1, 0, 1, 0, b"first"), 1.2)
    sent = one.sent("H1")
    one.frame("t", Envelope(0, 7, 2, 1, 0, 1, 0, b"second"), 1.3)
    one.confirmed("H1", sent)
    one.peer_lost("H1")
    again = [send.envelope.payload for _, send in one.peer_restored("H1") if isinstance(send, Send)]
    assert again == [b"second"]


def test_it_says_that_it_is_alive_five_times_a_lease() -> None:
    one = agent()
    assert one.tick(1.0) == [("", Answer(Alive("H0", 5, 1.0, 1, NEWEST)))]
    assert one.wake_s() <= 1.0 + TIMING.lease_s / 5


def test_an_announced_ring_freezes_topics_that_change_owner_and_names_those_in_use() -> None:
    one = agent()
    later_s = 2 * TIMING.lease_s
    for asked_s in (0.0, 0.4 * later_s, 0.8 * later_s):
        one.message(Renew(3, asked_s, TIMING.lease_s, 1, RING.brokers), asked_s)
        one.message(hello(MINE), asked_s)
    frozen = one.message(RingChange(3, 9, ("H9",), made=False), later_s)
    assert frozen == [("", Answer(Frozen("H0", 9, (MINE,))))]
    another = next(f"topic{n}" for n in range(99) if one.ring.owner(f"topic{n}") == "H0" and f"topic{n}" != MINE)
    [(_, reply)] = one.message(hello(another), later_s)
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, Unsure)


def test_who_is_about_to_own_a_topic_keeps_its_route_although_it_has_no_part_in_it() -> None:
    """The coordinator tells the next owner all routes first, and of the ring with a later lease."""
    one = agent()
    for asked_s in (0.0, 8.0, 16.0):
        one.message(Renew(3, asked_s, TIMING.lease_s, 1, RING.brokers), asked_s)
    assert one.message(RingChange(3, 3, ("H0",), made=False), 20.0)
    elsewhere = Route(2, Strategy.SINGLE, ("H1",))
    one.message(Prepare(THEIRS, 3, 2, (elsewhere,), 2, ()), 20.1)
    one.message(Tell(THEIRS, 3, 2, ()), 20.2)
    assert acks(one.message(Release(THEIRS, 3, 2), 20.3)) == [("release", 2)]
    assert isinstance(answer(one.message(hello(THEIRS), 20.4)), Unsure)  # the ring is another's still
    one.message(Renew(3, 20.4, TIMING.lease_s, 2, RING.brokers), 20.5)  # a ring between, late
    one.message(Renew(3, 20.6, TIMING.lease_s, 3, ("H0",)), 20.7)
    welcome = answer(one.message(hello(THEIRS), 20.8))
    assert isinstance(welcome, Welcome)
    assert welcome.route == elsewhere


def test_who_has_started_anew_and_is_caught_up_keeps_what_it_owns_by_a_ring_that_it_hears_of_last() -> None:
    """Its file says another ring. That of the fleet comes with the lease, and the lease when it knows every route."""
    one = agent(sure=False)
    elsewhere = Route(2, Strategy.SINGLE, ("H1",))
    one.message(Prepare(THEIRS, 3, 2, (elsewhere,), 2, ()), 1.0)
    one.message(Tell(THEIRS, 3, 2, ()), 1.1)
    assert acks(one.message(Release(THEIRS, 3, 2), 1.2)) == [("release", 2)]
    one.message(Renew(3, 1.3, TIMING.lease_s, 4, ("H0",)), 1.4)
    welcome = answer(one.message(hello(THEIRS), 1.5))
    assert isinstance(welcome, Welcome)
    assert welcome.route == elsewhere


def test_who_starts_anew_does_not_forget_a_route_before_it_knows_the_ring_whatever_part_it_had_in_it() -> None:
    """Started anew after a ring was made that gives it the topic, and released before its first lease tells it so."""
    for one in (agent(sure=False), agent()):  # the second one slept: its lease is over
        late_s = 2 * TIMING.lease_s
        one.message(Prepare(THEIRS, 3, 2, (OLD, NEW), 2, ()), late_s)
        one.subscribed(THEIRS, late_s)
        assert acks(one.message(Release(THEIRS, 3, 2), late_s)) == [("release", 2)]
        one.message(Renew(3, late_s, TIMING.lease_s, 2, ("H0",)), late_s)
        welcome = answer(one.message(hello(THEIRS, ring_version=2), late_s))
        assert isinstance(welcome, Welcome)
        assert welcome.route == NEW


def test_a_route_that_was_kept_for_want_of_a_lease_is_forgotten_with_it() -> None:
    one = agent(sure=False)
    one.message(Prepare(THEIRS, 3, 2, (OLD, NEW), 2, ()), 1.0)
    one.subscribed(THEIRS, 1.0)
    one.message(Release(THEIRS, 3, 2), 1.0)
    one.message(Renew(3, 1.0, TIMING.lease_s, 1, RING.brokers), 1.0)
    assert not one.forwarders, "by the ring it is another's, and nobody would tell us of its next move"


def test_who_has_not_held_a_lease_for_long_does_not_know_who_uses_its_topics_and_does_not_freeze_them() -> None:
    for one, since_s in ((agent(sure=False), None), (agent(), 0.0), (agent(), 3 * TIMING.lease_s)):
        if since_s:  # the first lease ran out before
            one.message(Renew(3, since_s, TIMING.lease_s, 1, RING.brokers), since_s)
        now = (since_s or 0.0) + 0.9 * TIMING.lease_s
        assert one.message(RingChange(3, 9, ("H9",), made=False), now) == []
        if since_s is not None:
            [(_, reply)] = one.message(hello(MINE), now)
            assert isinstance(reply, Reply)
            assert isinstance(reply.message, Welcome), "whoever is there can say so"
    newcomer = Dispatcher("new", 5, RING, TIMING)
    assert newcomer.message(RingChange(3, 9, ("H9",), made=False), 1.0) == [("", Answer(Frozen("new", 9, ())))]


def test_a_topic_without_a_route_is_forgotten_when_every_lease_on_it_is_over() -> None:
    one = agent()
    one.message(hello(MINE), 0.0)
    one.tick(2 * TIMING.lease_s - 1)
    assert MINE in one.forwarders
    one.tick(2 * TIMING.lease_s + TIMING.lease_s / 5)
    assert MINE not in one.forwarders


def test_cut_off_from_its_own_broker_it_lets_its_lease_run_out() -> None:
    one = agent()
    assert one.tick(1.0, broker_up=False) == []
    assert one.wake_s() < math.inf


def test_after_a_tick_no_time_is_left_that_has_come_already() -> None:
    one = agent()
    one.message(prepare(), 0.0)
    one.subscribed("t", 0.1)
    one.message(hello("t", publisher=7), 0.2)
    one.message(Ask("t", "c"), 0.2)
    now = 0.2
    for _ in range(50):
        now = max(now, one.wake_s())
        one.tick(now)
        assert one.wake_s() > now
