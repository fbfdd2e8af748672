"""The coverage argument of the protocol: whatever the two routes, forwarding what is missing reaches everybody."""

from hypothesis import given
from hypothesis import strategies as st

from nearcast.control.forwarder import Forwarder
from nearcast.control.instructions import Send
from nearcast.control.timing import Timing
from nearcast.domain.route import Delegation, Route, Strategy, route
from nearcast.wire.control import Prepare
from nearcast.wire.envelope import Envelope

Client = tuple[int, str | None]
BROKERS = ("H0", "H1", "H2", "H3")
clients = st.tuples(st.integers(0, 2**64 - 1), st.none() | st.sampled_from(BROKERS))  # a key and a home


@st.composite
def routes(draw: st.DrawFn, epoch: int) -> Route:
    strategy = draw(st.sampled_from(Strategy))
    most = 1 if strategy is Strategy.SINGLE else len(BROKERS)
    brokers = draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=most, unique=True))
    delegation = None
    if strategy is Strategy.HOMED and len(brokers) > 1 and draw(st.booleans()):
        homes = draw(st.lists(st.sampled_from(brokers[1:]), min_size=1, unique=True))
        delegation = Delegation(brokers[0], tuple(sorted(homes)))
    return route(epoch, strategy, brokers, delegation=delegation)


@given(routes(1), routes(2), clients, clients)
def test_a_message_published_under_one_route_reaches_every_subscriber_of_the_other(
    published: Route, wanted: Route, publisher: Client, subscriber: Client
) -> None:
    visited = published.publish_to(*publisher)
    reached = (*visited, *wanted.missing(visited, publisher[0]))
    assert any(broker in reached for broker in wanted.attach_to(*subscriber))


@given(routes(1), clients, clients)
def test_a_route_reaches_its_own_subscribers_without_forwarding_unless_it_says_so(
    own: Route, publisher: Client, subscriber: Client
) -> None:
    reached = own.publish_to(*publisher)
    if not own.forwards:
        assert any(broker in reached for broker in own.attach_to(*subscriber))


@given(routes(1), clients)
def test_a_publisher_sends_only_where_the_route_takes_it(own: Route, publisher: Client) -> None:
    assert set(own.publish_to(*publisher)) <= set(own.takes)


@given(routes(1), st.lists(st.sampled_from(BROKERS), unique=True), st.integers(0, 2**64 - 1))
def test_what_is_missing_is_never_where_the_message_has_been(wanted: Route, visited: list[str], key: int) -> None:
    missing = wanted.missing(visited, key)
    assert not any(broker in visited for broker in missing)
    assert all(broker in wanted.brokers for broker in missing)
    assert wanted.missing((*visited, *missing), key) == ()


@given(st.tuples(routes(1), routes(2), routes(3)), clients, clients)
def test_the_agents_of_three_live_routes_bring_a_message_to_the_subscribers_of_each(
    live: tuple[Route, Route, Route], publisher: Client, subscriber: Client
) -> None:
    """The same with the machines themselves: forwarders of every broker, frames carried until none is left."""
    members = sorted({broker for each in live for broker in each.brokers})
    agents = {}
    for broker in members:
        agents[broker] = Forwarder("t", broker, 1, live[0], timing=Timing())
        agents[broker].prepare(Prepare("t", 1, 3, live, 3, ()), 0.0, fresh=True)
        agents[broker].subscribed(0.0)
    for sent_by in live:
        message = Envelope(0, publisher[0], 1, sent_by.epoch, 0, 1, 0, b"m")
        under_way = [(broker, message) for broker in sent_by.publish_to(*publisher)]
        reached: list[str] = []
        while under_way:
            at, frame = under_way.pop()
            reached.append(at)
            assert len(reached) <= len(members) * len(members), "a message goes round and round"
            sends = [each for each in agents[at].frame(frame, 0.0) if isinstance(each, Send) and each.broker != at]
            under_way += [(send.broker, send.envelope) for send in sends]
        for each in live:
            assert any(broker in reached for broker in each.attach_to(*subscriber))
