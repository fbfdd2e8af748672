"""What the machines say of brokers that are in nobody's file, and of rings that change."""

from nearcast.control.dispatcher import Dispatcher
from nearcast.control.instructions import Answer, Attach, Command, Learn, Reply, Send
from nearcast.control.move import Move
from nearcast.control.subscriber import Subscriber
from nearcast.control.timing import Timing
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Ack, Hello, Prepare, Quiet, Release, Renew, RingChange, Switch, Tell, Unsure, Welcome
from nearcast.wire.envelope import notice

TIMING = Timing()
RING = Ring(("H0", "H1"), version=1)
AT_H0 = Route(1, Strategy.SINGLE, ("H0",))
AT_NEW = Route(2, Strategy.SINGLE, ("new",))
NEW = (("new", "nats://10.0.0.9:4222"),)
MINE = next(name for name in map(str, range(99)) if RING.owner(name) == "H0")


def agent(broker: str = "H0") -> Dispatcher:
    one = Dispatcher(broker, 5, RING, TIMING)
    one.message(Renew(3, 0.0, TIMING.lease_s, 1, RING.brokers), 0.0)
    return one


def hello(topic: str, *, epoch: int = 0, ring_version: int = 1) -> Hello:
    return Hello(topic, "c", 0, epoch, attached=False, asked_s=0.5, ring_version=ring_version)


def answer(one: Dispatcher, message: Hello) -> Welcome | Unsure:
    ((_, reply),) = one.message(message, 0.5)
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, Welcome | Unsure)
    return reply.message


# Addresses


def test_agents_are_prepared_with_the_addresses_of_brokers_that_came_later() -> None:
    book = {"other": "nats://10.0.0.8:4222"}
    move = Move(TopicRecord("t", Phase.DONE, (AT_H0,), 1, term=3), "H0", TIMING, book=book)
    book.update(NEW)  # it came after the topic was known
    move.begin(Strategy.SINGLE, ("new",))
    prepared = [each.message for each in move.saved(0.0) if isinstance(each, Command)]
    assert [each.addresses for each in prepared if isinstance(each, Prepare)] == [NEW, NEW]


def test_an_agent_passes_the_address_on_with_the_notice_and_with_the_answer() -> None:
    one = agent()
    one.message(Prepare("t", 3, 2, (AT_H0, AT_NEW), 1, (), NEW), 0.0)
    one.subscribed("t", 0.0)
    told = one.message(Tell("t", 3, 2, ()), 0.0)
    (switch,) = [each.envelope.notice for _, each in told if isinstance(each, Send)]
    assert isinstance(switch, Switch)
    assert (switch.route, switch.addresses) == (AT_NEW, NEW)
    assert answer(one, hello("t")).addresses == NEW


def test_a_subscriber_learns_the_address_before_it_goes_there() -> None:
    one = Subscriber("t", 0, "S", RING, timing=TIMING)
    one.tick(0.0)
    one.welcome(Welcome("t", AT_H0, ("H0",), 1, (), TIMING.lease_s, 0.0, 0, ()), "H0", 0.0)
    one.attached("H0", 0.0)
    out = one.frame(notice(Switch("t", AT_NEW, ("H0", "new"), 1, (), NEW), 2), "H0", 1.0)
    assert out[0] == Learn(NEW)
    assert Attach("new") in out


def test_who_has_an_older_ring_gets_the_addresses_of_the_present_one() -> None:
    one = agent()
    one.message(RingChange(3, 2, ("H0", "new"), made=True, addresses=NEW), 0.0)
    assert answer(one, hello("nobody-knows")).addresses == NEW
    assert answer(one, hello("nobody-knows", ring_version=2)).addresses == ()
    one = agent()
    one.message(Renew(3, 0.0, TIMING.lease_s, 2, ("H0", "new"), NEW), 0.0)
    assert answer(one, hello("nobody-knows")).addresses == NEW


# Rings that change


def test_who_is_the_rings_owner_no_longer_does_not_answer_with_what_it_once_knew() -> None:
    """Nobody tells it of later moves: what it would answer sends clients to a broker that the topic has left."""
    elsewhere = Route(1, Strategy.SINGLE, ("H1",))
    one = agent()
    one.message(Prepare(MINE, 3, 1, (elsewhere,), 1, ()), 0.0)
    assert isinstance(answer(one, hello(MINE)), Welcome)
    one.message(RingChange(3, 2, ("H1",), made=True), 0.0)
    assert isinstance(answer(one, hello(MINE)), Unsure)
    assert MINE not in one.forwarders


def test_who_is_prepared_late_as_an_owner_that_it_no_longer_is_does_not_answer_either() -> None:
    one = agent()
    one.message(RingChange(3, 2, ("H1",), made=True), 0.0)
    said = one.message(Prepare(MINE, 3, 1, (Route(1, Strategy.SINGLE, ("H1",)),), 1, ()), 0.0)
    assert [each.message for _, each in said if isinstance(each, Answer)] == [Ack(MINE, "H0", 5, 3, "prepare", 1)]
    assert isinstance(answer(one, hello(MINE)), Unsure)


def test_the_leaders_ring_counts_where_a_file_names_one_broker_more() -> None:
    """Both call it the first one: an agent that went by its file would take topics of others for its own."""
    one = Dispatcher("new", 5, Ring(("H0", "H1", "new")), TIMING)
    mine = next(name for name in map(str, range(99)) if one.ring.owner(name) == "new")
    one.message(Renew(3, 0.0, TIMING.lease_s, 0, ("H0", "H1")), 0.0)
    assert isinstance(answer(one, hello(mine, ring_version=0)), Unsure)


def preparing() -> Move:
    """On its way to H1; the ring gives it to D."""
    move = Move(TopicRecord("t", Phase.DONE, (AT_H0,), 1, term=3), "D", TIMING)
    move.begin(Strategy.SINGLE, ("H1",))
    move.saved(0.0)
    return move


def test_the_next_owner_is_prepared_and_the_one_before_is_not_waited_for() -> None:
    move = preparing()
    for broker in ("H0", "H1"):
        move.ack(Ack("t", broker, 1, 3, "prepare", 2), 0.0)
    prepared, *saved = move.redirect("E")
    assert isinstance(prepared, Command)
    assert (prepared.broker, len(saved)) == ("E", 1), "D never answered, and the move goes on"
    assert move.catching_up("E")
    assert move.participants == ("E", "H0", "H1")


def test_a_broker_that_has_left_the_fleet_is_not_waited_for_again() -> None:
    move = preparing()
    for of in ("prepare", "tell"):
        for broker in ("D", "H0", "H1"):
            move.ack(Ack("t", broker, 1, 3, of, 2), 0.0)
        if of == "prepare":
            move.saved(0.0)
    for broker in ("H0", "H1"):
        move.quiet(Quiet("t", broker, 2))
    released = [each.broker for each in move.saved(0.0) if isinstance(each, Command)]
    assert released == ["D", "H0", "H1"]
    for broker in released:
        move.ack(Ack("t", broker, 1, 3, "release", 2), 0.0)
    assert move.finished
    assert "H0" in move.participants
    move.forget("H0")
    move.resume(4)
    again = [each for each in move.saved(0.0) if isinstance(each, Command)]
    assert [each.broker for each in again if isinstance(each.message, Release)] == ["D", "H1"]


def test_a_broker_that_a_route_still_names_is_not_forgotten() -> None:
    move = preparing()
    move.forget("H1")
    move.forget("D")
    assert move.participants == ("D", "H0", "H1")
