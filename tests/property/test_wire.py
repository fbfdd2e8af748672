"""Codecs: what is written comes back, and no bytes whatsoever raise anything but a WireError."""

import contextlib
import math
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.domain.channel import Subscription
from nearcast.domain.errors import WireError
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.log import REPLICAS, LogSpec
from nearcast.domain.processor import Language, Processor, WhenFull
from nearcast.domain.route import Delegation, Route, Strategy
from nearcast.domain.whereabouts import BrokerPlace, Latencies, Spot, TopicPlace
from nearcast.wire import control
from nearcast.wire.channels import MOST_NEAR, AtHome, Follow, HomedClient, Notice, Resident, Result, Want, Wish
from nearcast.wire.dialect import NEWEST, Dialect
from nearcast.wire.envelope import (
    END,
    FORWARDED,
    HEADER_BYTES,
    HEARTBEAT,
    MAGIC,
    PLAIN,
    Envelope,
    Trail,
    decode,
    encode,
    notice,
)
from nearcast.wire.loads import Counts, Load, TopicCount
from nearcast.wire.places import Echo, Located, Placed, Position

DIALECT = Dialect(b"fleet")

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
u64 = st.integers(0, 2**64 - 1)
u32 = st.integers(0, 2**32 - 1)
trails = st.builds(Trail, names, u64, u64, u32, st.lists(names, max_size=5).map(tuple))


@st.composite
def routes(draw: st.DrawFn) -> Route:
    strategy = draw(st.sampled_from(Strategy))
    most = 1 if strategy is Strategy.SINGLE else 4
    brokers = draw(st.lists(names, min_size=1, max_size=most, unique=True))
    return Route(draw(u32), strategy, tuple(sorted(brokers)))


st.register_type_strategy(Route, routes())
kinds = [*get_args(control.OnTopic), *get_args(control.ToAgent), *get_args(control.ToClient)]
kinds += [*get_args(control.ToCoordinator), *get_args(control.Answered), *get_args(control.Survey)]
kinds += get_args(control.Channels)
# MessagePack has no integers beyond 64 bits, and a NaN is unequal to itself.
st.register_type_strategy(
    Processor,
    st.builds(
        Processor,
        st.just(Language.SQL),
        st.text("abc *", min_size=1, max_size=20).filter(str.strip),
        st.integers(0, 9),
        st.floats(1, 1e3),
        st.integers(1, 99),
        st.sampled_from(WhenFull),
    ),
)
# Nobody delegates to itself, or to nobody.
st.register_type_strategy(
    Delegation,
    st.lists(names, min_size=2, max_size=4, unique=True).map(lambda each: Delegation(each[0], tuple(sorted(each[1:])))),
)
st.register_type_strategy(int, st.integers(-(2**63), 2**64 - 1))
st.register_type_strategy(float, st.floats(allow_nan=False))
# What these refuse when it is empty is filled: a ring has brokers, a topic is prepared with a route.
rings = st.lists(names, min_size=1, max_size=4, unique=True).map(tuple)
for kind in (control.RingChange, control.Renew, control.Welcome, control.Unsure, control.Prepare):
    filled = {"brokers": rings, "ring": rings, "routes": st.lists(routes(), min_size=1, max_size=3).map(tuple)}
    st.register_type_strategy(
        kind, st.builds(kind, **{name: each for name, each in filled.items() if name in kind.__struct_fields__})
    )
# No log has an even number of replicas, or keeps nothing.
limits = st.none() | st.integers(1, 2**63)
st.register_type_strategy(
    LogSpec, st.builds(LogSpec, st.sampled_from(REPLICAS), st.none() | st.floats(1, 1e9), limits, limits)
)
# Nor are figures that nobody can have counted taken.
numbers, rates = st.integers(0, 10**6), st.floats(0, 1e12)
counts = st.builds(TopicCount, st.from_regex(r"[a-z]{1,9}", fullmatch=True), numbers, numbers, numbers, numbers)
st.register_type_strategy(
    Counts, st.builds(Counts, names, st.floats(0.1, 3600), st.lists(counts, max_size=5).map(tuple))
)
# Nor times that cannot be.
times = st.floats(0, 1e9)
rtts = st.lists(st.tuples(names, times), max_size=16).map(tuple)
positions = st.builds(Position, st.lists(st.floats(-1, 1), max_size=8).map(tuple))
st.register_type_strategy(
    Echo,
    st.builds(
        Echo,
        names,
        numbers,
        times,
        st.floats(1e9, 1e10),
        positions,
        uncertainty_s=st.none() | times,
        peers=st.just(()),
        wander_s=times,
        rtts_s=rtts,
    ),
)
st.register_type_strategy(Located, st.builds(Located, names, positions, *(st.none() | times,) * 2, names, times, rtts))
spots = st.builds(Spot, st.lists(st.floats(-1, 1), max_size=8).map(tuple), times)
latencies = st.none() | st.builds(Latencies)
topic_places = st.builds(TopicPlace, names, st.none() | spots, st.none() | spots, times, times, latencies, rtts)
broker_places = st.builds(BrokerPlace, names, spots, st.lists(topic_places, max_size=3).map(tuple))
st.register_type_strategy(Placed, st.builds(Placed, broker_places))
loads = st.builds(TopicLoad, names, rates, rates, rates, rates, numbers, numbers)
capacities = st.just(math.inf) | st.floats(1, 1e12)
reports = st.builds(BrokerReport, names, rates, rates, capacities, st.lists(loads, max_size=5).map(tuple))
st.register_type_strategy(Load, st.builds(Load, reports, numbers, st.none() | loads))
# Nor can results be kept for less than no time, or come in parts that do not add up.
subscriptions = st.builds(Subscription, names, st.lists(st.tuples(names, names | numbers), max_size=3).map(tuple))
st.register_type_strategy(Wish, st.builds(Wish, subscriptions, st.none() | numbers, times))
st.register_type_strategy(Want, st.builds(Want, subscriptions, times))
st.register_type_strategy(Notice, st.builds(Notice, names, st.builds(Result, numbers, numbers, st.binary(max_size=50))))
near = st.lists(st.tuples(names, times), max_size=MOST_NEAR).map(tuple)
wishes = st.lists(st.from_type(Wish), max_size=3).map(tuple)
st.register_type_strategy(Follow, st.builds(Follow, names, times, wishes, near))


# Nor does anybody follow a key that is not named.
@st.composite
def at_homes(draw: st.DrawFn) -> AtHome:
    keys = draw(st.lists(st.tuples(names, rates), max_size=5).map(tuple))
    followed = st.lists(st.integers(0, len(keys) - 1), unique=True).map(tuple) if keys else st.just(())
    residents = st.lists(st.builds(Resident, names, followed, near), max_size=4).map(tuple)
    left = st.lists(names, max_size=3).map(tuple)
    topics = draw(st.lists(names, max_size=3, unique=True).map(tuple))
    used = st.lists(st.integers(0, len(topics) - 1), unique=True).map(tuple) if topics else st.just(())
    at = st.lists(times, max_size=4).map(tuple)
    homed = st.lists(st.builds(HomedClient, names, used, used, names, at), max_size=3).map(tuple)
    return AtHome(draw(names), draw(u64), draw(numbers), keys, draw(residents), draw(left), topics, draw(homed))


st.register_type_strategy(AtHome, at_homes())
messages = st.sampled_from(kinds).flatmap(st.from_type)
on_topic = st.sampled_from(get_args(control.OnTopic)).flatmap(st.from_type)

envelopes = st.builds(
    Envelope,
    st.sampled_from((0, END, HEARTBEAT, END | HEARTBEAT, PLAIN)),
    u64,
    u64,
    u32,
    u32,
    u64,
    st.integers(-(2**63), 2**63 - 1),
    st.binary(),
    st.none() | trails,
)


@given(envelopes)
def test_an_envelope_comes_back_as_it_was(envelope: Envelope) -> None:
    assert decode(encode(envelope, DIALECT), DIALECT) == envelope


@given(on_topic, u32)
def test_a_notice_comes_back_as_it_was(message: control.OnTopic, epoch: int) -> None:
    assert decode(encode(notice(message, epoch), DIALECT), DIALECT) == notice(message, epoch)


@given(messages)
def test_a_control_message_comes_back_as_it_was(message: control.Control) -> None:
    assert control.unseal(control.seal(message, DIALECT), DIALECT) == message


@given(st.binary())
def test_bytes_without_our_magic_are_a_plain_message_whole(data: bytes) -> None:
    if not data.startswith(MAGIC):
        envelope = decode(data, DIALECT)
        assert (envelope.flags, envelope.payload) == (PLAIN, data)


@given(st.binary(max_size=120))
def test_arbitrary_bytes_behind_our_magic_raise_nothing_but_a_wire_error(data: bytes) -> None:
    only_wire_errors(MAGIC + data)


@given(st.integers(0, 31), st.binary(min_size=HEADER_BYTES - 4, max_size=160))
def test_arbitrary_bytes_behind_a_good_start_raise_nothing_but_a_wire_error(flags: int, data: bytes) -> None:
    only_wire_errors(MAGIC + bytes((NEWEST, flags)) + data)


@given(envelopes, st.data())
def test_a_message_with_one_byte_changed_raises_nothing_but_a_wire_error(
    envelope: Envelope, data: st.DataObject
) -> None:
    whole = encode(envelope, DIALECT)
    at = data.draw(st.integers(0, len(whole) - 1))
    only_wire_errors(whole[:at] + data.draw(st.binary(min_size=1, max_size=1)) + whole[at + 1 :])


@given(trails, st.data())
def test_a_cut_trail_raises_nothing_but_a_wire_error(trail: Trail, data: st.DataObject) -> None:
    whole = encode(Envelope(0, 1, 1, 1, 0, 1, 0, b"", trail), DIALECT)
    assert whole[3] & FORWARDED
    cut = whole[: data.draw(st.integers(HEADER_BYTES, len(whole) - 1))]
    with pytest.raises(WireError):
        decode(cut, DIALECT)


@given(st.binary(max_size=120))
def test_arbitrary_bytes_unsealed_raise_nothing_but_a_wire_error(data: bytes) -> None:
    with contextlib.suppress(WireError):
        control.unseal(data, DIALECT)


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@given(messages, st.data())
def test_a_signed_message_with_a_wrong_field_raises_nothing_but_a_wire_error(
    message: control.Control, data: st.DataObject
) -> None:
    """Whoever has the key may still run another version of the code."""
    body = msgspec.to_builtins(message)
    if "route" in body and data.draw(st.booleans()):
        body["route"]["brokers"] = data.draw(st.lists(st.sampled_from(("H0", "H1")), max_size=3))
    else:
        body[data.draw(st.sampled_from(sorted(body)))] = data.draw(junk)
    packed = msgspec.msgpack.encode(body)
    sealed = bytes((NEWEST,)) + DIALECT.signature(packed, NEWEST) + packed
    with contextlib.suppress(WireError):
        control.unseal(sealed, DIALECT)


def only_wire_errors(data: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(data, DIALECT)
