"""A client of a homed topic changes its home: what its machines and the agents say; and who copies what to whom."""

import math
from dataclasses import replace

import msgspec

from nearcast.control.copies import copies_of, keep_in_step, messages_of
from nearcast.control.followers import TopicUser
from nearcast.control.forwarder import Forwarder
from nearcast.control.homed_users import homed_users
from nearcast.control.instructions import Attach, Detach, Instruction, Say, Send
from nearcast.control.publisher import Publisher
from nearcast.control.spool import Spool
from nearcast.control.stage import Outcome, Process
from nearcast.control.subscriber import Subscriber
from nearcast.control.timing import Timing
from nearcast.domain.message import Message
from nearcast.domain.processor import Language, Processor
from nearcast.domain.ring import Ring
from nearcast.domain.route import Delegation, Route, Strategy
from nearcast.domain.whereabouts import Spot
from nearcast.wire.control import (
    Ask,
    Bye,
    Copies,
    Generation,
    Hello,
    Launch,
    Marker,
    Prepare,
    Release,
    Spooled,
    Tell,
    Welcome,
)
from nearcast.wire.envelope import END, Envelope, Trail, notice

TIMING = Timing()
HOMES = ("H0", "H1", "H2")
RING = Ring(HOMES, vnodes=1)
PROCESSOR = Processor(Language.PYTHON, "a.b:c", spool=2)
HOMED = Route(1, Strategy.HOMED, HOMES)
SINGLE = Route(1, Strategy.SINGLE, ("H0",))
PROCESSED = Route(1, Strategy.HOMED, HOMES, PROCESSOR)


def welcome(route: Route = HOMED, *, asked_s: float = 0.0, publisher: int = 0, registered: str = "") -> Welcome:
    return Welcome(
        "t",
        route,
        route.brokers,
        route.epoch,
        (),
        TIMING.lease_s,
        asked_s,
        0,
        (),
        publisher=publisher,
        registered=registered,
    )


def publisher(home: str = "H1") -> Publisher:
    one = Publisher("t", 6, "P", RING, timing=TIMING)
    one.lease.home = home
    one.tick(0.0)
    one.welcome(welcome(publisher=6, registered=home), 0.0)
    return one


def sent(instructions: list[Instruction]) -> list[tuple[str, int, int]]:
    return [(each.broker, each.envelope.flags, each.envelope.seq) for each in instructions if isinstance(each, Send)]


# Publishers


def test_a_publisher_ends_its_leg_at_the_old_home_and_goes_on_at_the_new_one() -> None:
    one = publisher()
    one.publish(b"m", 1.0, 0)
    out = one.rehome("H2", 2.0)
    assert sent(out) == [("H1", END, 1)]
    assert [each.broker for each in out if isinstance(each, Say) and isinstance(each.message, Hello)] == ["H2"]
    assert one.targets == ("H2",)
    following = one.publish(b"m", 2.0, 0)
    assert (following.seq, following.first, following.epoch, following.before) == (2, 2, 1, 1)


def test_it_says_goodbye_at_the_old_home_once_the_new_one_would_miss_it() -> None:
    one = publisher()
    one.publish(b"m", 1.0, 0)
    one.rehome("H2", 2.0)
    assert Say("H1", Bye("t", "P", 6)) in one.welcome(welcome(asked_s=2.0, publisher=6, registered="H2"), 2.1)


def test_a_home_that_it_has_already_or_that_the_route_has_not_changes_nothing() -> None:
    one = publisher()
    assert one.rehome("H1", 2.0) == []
    other = Publisher("t", 6, "P", RING, timing=TIMING)
    assert other.rehome("H1", 0.0) == []  # there is no route yet
    other.welcome(welcome(SINGLE, publisher=6, registered="H0"), 0.0)
    assert other.rehome("H2", 1.0) == []
    assert other.targets == ("H0",)


def test_at_a_home_that_delegates_it_publishes_at_the_cloud() -> None:
    one = publisher()
    one.publish(b"m", 1.0, 0)
    delegated = Route(2, Strategy.HOMED, HOMES, delegation=Delegation("H0", ("H1",)))
    out = one.welcome(welcome(delegated, publisher=6), 2.0)
    assert sent(out) == [("H1", END, 1)]
    assert one.targets == ("H0",)
    one.rehome("H2", 3.0)
    assert one.targets == ("H2",)


# Subscribers


def settled(home: str = "H1") -> Subscriber:
    one = Subscriber("t", 0, "S", RING, timing=TIMING)
    one.lease.home = home
    one.tick(0.0)
    one.welcome(welcome(), "H0", 0.0)
    one.attached(home, 0.0)
    one.welcome(welcome(asked_s=0.0), home, 0.0)
    pass_barrier(one, (home,), 0.1)
    one.tick(0.1 + TIMING.linger_s)
    assert one.ready
    return one


def pass_barrier(one: Subscriber, through: tuple[str, ...], now: float) -> None:
    one.generation(Generation("t", 1, through[0], 8, 1, HOMES), now)
    for source in HOMES:
        for via in through:
            said = notice(Marker("t", through[0], 8, 1, source, ()), 1)
            if source != via:  # carried there by its agent
                said = msgspec.structs.replace(said, trail=Trail(source, 5, 1, 2, (source, via)))
            one.frame(said, via, now)


def test_a_subscriber_leaves_its_old_home_behind_a_barrier() -> None:
    one = settled()
    assert one.rehome("H2", 5.0) == [Attach("H2")]
    one.attached("H2", 5.1)
    assert Say("H2", Ask("t", "S")) in one.welcome(welcome(asked_s=5.1), "H2", 5.2)
    pass_barrier(one, ("H2", "H1"), 5.3)
    assert list(one.attachments) == ["H1", "H2"]  # it lingers
    assert Detach("H1") in one.tick(5.3 + TIMING.linger_s)
    assert list(one.attachments) == ["H2"]


def test_one_that_turns_back_on_its_way_stays_behind_a_barrier_too() -> None:
    one = settled()
    one.rehome("H2", 5.0)
    one.attached("H2", 5.1)
    one.welcome(welcome(asked_s=5.1), "H2", 5.2)
    assert one.rehome("H1", 5.3) == [Say("H1", Ask("t", "S"))]
    pass_barrier(one, ("H1", "H2"), 5.4)
    assert Detach("H2") in one.tick(5.4 + TIMING.linger_s)


# Agents


def agent(route: Route = HOMED, broker: str = "H0") -> Forwarder:
    one = Forwarder("t", broker, 5, route, timing=TIMING)
    one.prepare(Prepare("t", 1, route.epoch, (route,), route.epoch, ()), 0.0, fresh=False)
    one.subscribed(0.0)
    one.subscribed(0.0, inlet=True)
    return one


def ended(one: Forwarder) -> list[tuple[int, int, int, tuple[str, ...]]]:
    (marker,) = one.launch(Launch("t", "H1", 8, 1))
    assert isinstance(marker, Send)
    assert isinstance(marker.envelope.notice, Marker)
    return list(marker.envelope.notice.legs())


def test_a_marker_names_the_legs_that_ended_at_this_home_whoevers_key_it_is() -> None:
    """The agent does not know a publisher's home: the leg was where its END came."""
    one = agent()
    assert HOMED.publish_to(7, None) != ("H0",)
    one.frame(Envelope(END, 7, 3, 1, 0, 1, 0, b""), 1.0)
    assert ended(one) == [(7, 1, 3, ("H0",))]


def test_ends_of_publishers_that_rest_are_forgotten_while_the_topic_rests() -> None:
    one = agent()
    one.frame(Envelope(END, 7, 3, 1, 0, 1, 0, b""), 1.0)
    later_s = 1.0 + TIMING.forget_s + TIMING.lease_s
    one.frame(Envelope(END, 8, 1, 1, 0, 1, 0, b""), later_s - 0.1)
    assert [each[0] for each in ended(one)] == [7, 8]
    one.frame(Envelope(END, 9, 1, 1, 0, 1, 0, b""), later_s)
    assert [each[0] for each in ended(one)] == [8, 9]


def test_each_leg_of_a_publisher_is_named_and_those_of_routes_that_are_over_are_not() -> None:
    one = agent()
    one.prepare(Prepare("t", 1, 2, (HOMED, replace(HOMED, epoch=2)), 2, ()), 0.5, fresh=False)
    for epoch, first, last in ((1, 1, 3), (2, 8, 9), (2, 20, 21)):
        one.frame(Envelope(END, 7, last, epoch, 0, first, 0, b""), 1.0)
    assert ended(one) == [(7, 1, 3, ("H0",)), (7, 8, 9, ("H0",)), (7, 20, 21, ("H0",))]
    one.release(Release("t", 1, 2))
    assert ended(one) == [(7, 8, 9, ("H0",)), (7, 20, 21, ("H0",))]


def test_a_home_that_delegates_has_no_inlet_and_no_spool() -> None:
    one = Forwarder("t", "H1", 5, PROCESSED, timing=TIMING)
    delegated = Route(2, Strategy.HOMED, HOMES, PROCESSOR, Delegation("H0", ("H1",)))
    out = one.prepare(Prepare("t", 1, 2, (delegated,), 2, ()), 0.0, fresh=True)
    assert Attach("H1") in out
    assert Attach("H1", inlet=True) not in out
    assert one.processing.stage is None


def process(one: Forwarder, *payloads: bytes, now: float = 1.0) -> None:
    assert one.processing.stage is not None
    for seq, payload in enumerate(payloads, one.processing.stage.spool.count + 1):
        (job,) = [
            each.job for each in one.put_in(Envelope(0, 7, seq, 1, 0, 1, 0, payload), now) if type(each) is Process
        ]
        one.processed(job.number, Outcome((b"made",)), now)


def spooled(one: Forwarder) -> list[bytes]:
    assert one.processing.stage is not None
    return [each.payload for each in one.processing.stage.spool.since(0)]


def copies(instructions: list[Instruction]) -> dict[str, list[bytes]]:
    said = [each for each in instructions if isinstance(each, Say) and isinstance(each.message, Copies)]
    return {
        each.broker: [one.payload for one in each.message.messages] for each in said if type(each.message) is Copies
    }


def test_what_is_spooled_goes_to_the_others_together_a_moment_later() -> None:
    one = agent(PROCESSED)
    process(one, b"a", b"b", now=1.0)
    assert one.wake_s() <= 1.0 + TIMING.copy_s
    assert copies(one.tick(1.0 + TIMING.copy_s / 2)) == {}
    assert copies(one.tick(1.0 + TIMING.copy_s)) == {"H1": [b"a", b"b"], "H2": [b"a", b"b"]}
    assert copies(one.tick(2.0)) == {}


def test_no_more_is_copied_than_anybody_looks_back_on() -> None:
    one = agent(PROCESSED)
    process(one, b"a", b"b", b"c")
    assert copies(one.tick(2.0))["H1"] == [b"b", b"c"]


def test_copies_of_others_are_looked_back_on_and_not_sent_on() -> None:
    one = agent(PROCESSED)
    process(one, b"a")
    one.copied(Copies("t", (Spooled(9, 1, 0, b"x"),)))
    assert spooled(one) == [b"a", b"x"]
    assert copies(one.tick(2.0))["H1"] == [b"a"]


def test_a_topic_that_is_not_homed_or_looks_back_on_nothing_is_not_copied() -> None:
    assert keep_in_step(PROCESSED) == HOMES
    assert keep_in_step(HOMED) == ()
    assert keep_in_step(Route(1, Strategy.ALL_SUBSCRIBERS, HOMES, PROCESSOR)) == ()
    assert keep_in_step(Route(1, Strategy.HOMED, HOMES, Processor(Language.PYTHON, "a.b:c"))) == ()
    assert keep_in_step(Route(1, Strategy.HOMED, HOMES, PROCESSOR, Delegation("H0", ("H1",)))) == ("H0", "H2")
    one = agent(Route(1, Strategy.ALL_SUBSCRIBERS, HOMES, PROCESSOR))
    process(one, b"a")
    assert one.wake_s() == math.inf


def test_the_first_of_those_who_processed_hands_its_spool_to_who_comes() -> None:
    before = Route(1, Strategy.HOMED, ("H0", "H1"), PROCESSOR)
    after = Route(2, Strategy.HOMED, HOMES, PROCESSOR)
    handed = {}
    for broker in before.brokers:
        one = agent(before, broker)
        process(one, b"a", b"b")
        one.tick(2.0)
        one.prepare(Prepare("t", 1, 2, (before, after), 1, ()), 3.0, fresh=False)
        handed[broker] = copies(one.tell(Tell("t", 1, 2, ()), 4.0))
    assert handed == {"H0": {"H2": [b"a", b"b"]}, "H1": {}}


def test_a_peer_that_was_cut_off_is_handed_the_whole_spool() -> None:
    one = agent(PROCESSED)
    one.peer_lost("H1")
    process(one, b"a")
    assert copies(one.tick(2.0)) == {"H2": [b"a"]}
    assert copies(one.peer_restored("H1")) == {"H1": [b"a"]}


def test_a_spool_takes_a_copy_once() -> None:
    spool = Spool(3)
    mine, theirs = (Message("t", payload, 7, seq, 0) for seq, payload in enumerate((b"a", b"b"), 1))
    spool.append(mine)
    spool.merge([mine, theirs])
    assert [each.payload for each in spool.since(0)] == [b"a", b"b"]
    plain = Message("t", b"p", 0, 0, 0)
    spool.merge([plain, plain])  # nobody knows whether it is the same
    assert [each.payload for each in spool.since(0)] == [b"b", b"p", b"p"]


def test_copies_are_cut_so_that_every_server_takes_them() -> None:
    large = [Message("t", bytes(300_000), 7, seq, 0) for seq in range(1, 4)]
    small = [Message("t", b"x", 8, seq, 0) for seq in range(1, 1502)]
    parts = list(copies_of("t", [*large, *small]))
    assert [len(each.messages) for each in parts] == [1, 1, 1000, 502]
    assert [one for each in parts for one in messages_of(each)] == [*large, *small]


# What the coordinator is told of it


def test_an_agent_tells_who_uses_its_homed_topics_where_they_say_they_are_at_home_and_where_they_are() -> None:
    homed, single = (Forwarder(name, "H0", 1, route, timing=TIMING) for name, route in (("t", HOMED), ("u", SINGLE)))
    for forwarder in (homed, single):
        forwarder.hello(Hello(forwarder.topic, "ann", 0, 1, True, 0.0, 0, "H0"), 0.0)
        forwarder.hello(Hello(forwarder.topic, "bob", 7, 1, True, 0.0, 0), 0.0)
    spots = {"ann": Spot((0.5, 0.2), 0.1)}
    assert homed_users({"t": homed, "u": single}, spots.get) == {
        "ann": TopicUser((), ("t",), "H0", (0.5, 0.2, 0.1)),
        "bob": TopicUser(("t",), ()),
    }
