"""Sealed control messages: what unseals, and what is refused with which words."""

import msgspec
import pytest

from nearcast.domain.errors import ConfigError, MalformedControl, UnknownVersion
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import (
    Alive,
    Bye,
    Gone,
    Prepare,
    Switch,
    Welcome,
    agent_bus_subject,
    client_subject,
    seal,
    seal_on_topic,
    unseal,
    unseal_on_topic,
)
from nearcast.wire.dialect import NEWEST, OLDEST, Dialect
from nearcast.wire.loads import Counts, TopicCount

DIALECT = Dialect(b"fleet")
ROUTE = Route(3, Strategy.ALL_PUBLISHERS, ("H0", "H1"))


def sealed(body: bytes) -> bytes:
    """As `seal`, for a body that no message of ours encodes to."""
    return bytes((NEWEST,)) + DIALECT.signature(body, NEWEST) + body


def test_a_welcome_comes_back_as_it_was() -> None:
    welcome = Welcome("t", ROUTE, ("H0",), 2, ("H2",), 10.0, 1.5, 4, ("H0", "H1"), 77, "H1")
    assert unseal(seal(welcome, DIALECT), DIALECT) == welcome


def test_a_prepare_comes_back_with_its_routes_in_order() -> None:
    prepare = Prepare("t", 2, 3, (Route(2, Strategy.SINGLE, ("H0",)), ROUTE), 2, ())
    assert unseal(seal(prepare, DIALECT), DIALECT) == prepare


@pytest.mark.parametrize("brokers", [[], ["H0", "H0"]])
def test_a_ring_that_cannot_be_one_is_refused(brokers: list[str]) -> None:
    body = msgspec.msgpack.encode({"type": "RingChange", "term": 1, "version": 2, "brokers": brokers, "made": True})
    with pytest.raises(MalformedControl, match="not the brokers of a ring"):
        unseal(sealed(body), DIALECT)


def test_an_unknown_version_is_named() -> None:
    data = seal(Bye("t", "c", 0), DIALECT)
    with pytest.raises(UnknownVersion, match="version 200"):
        unseal(bytes((200,)) + data[1:], DIALECT)


def test_a_wrong_signature_says_what_to_look_at() -> None:
    with pytest.raises(MalformedControl, match="do both sides share the fleet's key"):
        unseal(seal(Bye("t", "c", 0), Dialect(b"other")), DIALECT)


def test_one_changed_byte_breaks_the_signature() -> None:
    data = seal(Bye("t", "c", 0), DIALECT)
    for at in range(1, len(data)):
        with pytest.raises(MalformedControl, match="signature"):
            unseal(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :], DIALECT)


@pytest.mark.parametrize("size", [0, 1, 17])
def test_a_message_shorter_than_its_seal_is_refused(size: int) -> None:
    with pytest.raises(MalformedControl, match=f"{size} bytes is too short"):
        unseal(seal(Bye("t", "c", 0), DIALECT)[:size], DIALECT)


def test_a_signed_message_of_no_known_kind_is_refused() -> None:
    body = msgspec.msgpack.encode({"type": "Coup", "topic": "t"})
    with pytest.raises(MalformedControl, match="not readable"):
        unseal(sealed(body), DIALECT)


def test_a_signed_message_with_a_field_of_another_type_is_refused() -> None:
    body = msgspec.msgpack.encode({"type": "Bye", "topic": "t", "client": 5, "publisher": 0})
    with pytest.raises(MalformedControl, match="not readable"):
        unseal(sealed(body), DIALECT)


@pytest.mark.parametrize("brokers", [[], ["H1", "H0"], ["H0", "H0"]])
def test_a_signed_route_that_cannot_be_one_is_refused(brokers: list[str]) -> None:
    route = {"epoch": 1, "strategy": "homed", "brokers": brokers}
    body = msgspec.msgpack.encode({"type": "Switch", "topic": "t", "route": route, "sources": [], "floor": 0})
    with pytest.raises(MalformedControl, match="route brokers must be sorted"):
        unseal(sealed(body), DIALECT)


def test_what_belongs_on_a_topic_is_let_through() -> None:
    for message in (Gone("t", 5), Switch("t", ROUTE, ("H0",), 2)):
        assert unseal_on_topic(seal_on_topic(message, DIALECT, b"before"), DIALECT, b"before") == message


@pytest.mark.parametrize("message", [Bye("t", "c", 0), Alive("H0", 1, 0.0, 0), Prepare("t", 1, 1, (ROUTE,), 0, ())])
def test_what_does_not_belong_on_a_topic_is_refused_by_name(message: Bye | Alive | Prepare) -> None:
    with pytest.raises(MalformedControl, match=f"a {type(message).__name__} does not belong on a topic"):
        unseal_on_topic(seal_on_topic(message, DIALECT, b""), DIALECT, b"")  # type: ignore[arg-type]  # as forged


def test_every_control_subject_is_one_that_no_topic_can_have() -> None:
    for subject in (client_subject("c"), agent_bus_subject("H0")):
        assert subject.startswith("_nearcast.")


def test_every_version_is_read_whichever_is_written() -> None:
    bye = Bye("t", "c", 0)
    for version in range(OLDEST, NEWEST + 1):
        data = seal(bye, Dialect(DIALECT.key, version))
        assert data[0] == version
        assert unseal(data, DIALECT) == bye


def test_from_the_second_version_on_the_signature_covers_the_version() -> None:
    data = seal(Bye("t", "c", 0), DIALECT)
    with pytest.raises(MalformedControl, match="wrong signature"):
        unseal(bytes((OLDEST,)) + data[1:], DIALECT)


@pytest.mark.parametrize("version", [OLDEST - 1, NEWEST + 1])
def test_a_version_that_this_software_does_not_write_is_refused(version: int) -> None:
    with pytest.raises(ConfigError, match=f"protocol is {version}; this software writes {OLDEST} to {NEWEST}"):
        Dialect(b"fleet", version)


def test_what_an_agent_of_the_first_version_left_unsaid_has_a_default() -> None:
    body = msgspec.msgpack.encode(
        {"type": "Alive", "broker": "H0", "incarnation": 1, "asked_s": 0.5, "ring_version": 0}
    )
    old = Dialect(DIALECT.key, OLDEST)
    assert unseal(bytes((OLDEST,)) + old.signature(body, OLDEST) + body, DIALECT) == Alive("H0", 1, 0.5, 0, 1)


def test_counts_come_back_as_they_were() -> None:
    counts = Counts("alice", 1.01, (TopicCount("t", 10, 1000, 20, 2000), TopicCount("u", deliveries=1, bytes_out=9)))
    assert unseal(seal(counts, DIALECT), DIALECT) == counts


@pytest.mark.parametrize(
    ("seconds", "topics"),
    [
        (0.0, [["t", 1, 1, 1, 1]]),
        (-1.0, [["t", 1, 1, 1, 1]]),
        (float("nan"), [["t", 1, 1, 1, 1]]),
        (float("inf"), [["t", 1, 1, 1, 1]]),
        (1e9, [["t", 1, 1, 1, 1]]),
        (1.0, [["t", -1, 1, 1, 1]]),
        (1.0, [["t", 1, 1, 1, -1]]),
        (1.0, [["t", 10**15, 1, 1, 1]]),
        (1.0, [["t", 1, 1, 1, 10**15]]),
        (1.0, [["t", 1.5, 1, 1, 1]]),
        (1.0, [["t.*", 1, 1, 1, 1]]),
        (1.0, [["_nearcast.agent", 1, 1, 1, 1]]),
        (1.0, [["t", 1, 1, 1, 1]] * 1001),
    ],
)
def test_counts_that_no_client_can_have_counted_are_refused(seconds: float, topics: list[list[object]]) -> None:
    body = msgspec.msgpack.encode({"type": "Counts", "client": "alice", "seconds": seconds, "topics": topics})
    with pytest.raises(MalformedControl):
        unseal(sealed(body), DIALECT)
