"""Notices on topics are an agent's: who may publish there, and has the fleet's key, can still make none."""

import contextlib
import pickle

import msgspec
import pytest

from nearcast.domain.errors import ConfigError, MalformedControl, WireError
from nearcast.domain.route import Route, Strategy
from nearcast.transport.notice_keys import Checker, new_notice_key, public_half, signing
from nearcast.wire.control import Marker, Switch
from nearcast.wire.dialect import Dialect
from nearcast.wire.envelope import HEADER_BYTES, Envelope, Trail, decode, encode, notice

KEY, PRIVATE = b"the fleet's, which every client has", "01" * 32
CHECK = Checker(public_half(PRIVATE))
AGENT = Dialect(KEY, check=CHECK, sign=signing(PRIVATE))
CLIENT = Dialect(KEY, check=CHECK)
MARKER = notice(Marker("t", "b1", 7, 3, "b1", ()), 2)
FORWARDED = msgspec.structs.replace(MARKER, trail=Trail("b1", 9, 4, 2, ("b1",)))


@pytest.mark.parametrize("envelope", [MARKER, FORWARDED])
def test_what_an_agent_signed_is_read_by_clients_and_agents(envelope: Envelope) -> None:
    for reader in (CLIENT, AGENT):
        assert decode(encode(envelope, AGENT), reader) == envelope


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_client_with_the_fleets_key_can_make_none(version: int) -> None:
    with pytest.raises(MalformedControl, match="signature"):
        decode(encode(MARKER, Dialect(KEY, version)), CLIENT)
    stranger = Dialect(KEY, sign=signing(new_notice_key()))
    with pytest.raises(MalformedControl, match="wrong signature; is it an agent's of this fleet"):
        decode(encode(MARKER, stranger), CLIENT)


@pytest.mark.parametrize("envelope", [MARKER, FORWARDED])
def test_nothing_of_a_signed_notice_can_be_changed_neither_its_header_nor_its_trail(envelope: Envelope) -> None:
    data = encode(envelope, AGENT)
    accepted = []
    for at in range(3, len(data)):  # what is before says that it is ours, and in which version
        changed = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
        with contextlib.suppress(WireError):
            if decode(changed, CLIENT).notice is not None:
                accepted.append(at)
    assert accepted == []


def test_a_notice_cannot_be_carried_on_by_another_trail() -> None:
    """From one broker to another: the trail is what says that an agent did."""
    data = encode(MARKER, AGENT)
    forged = encode(msgspec.structs.replace(FORWARDED, notice=None, flags=MARKER.flags), CLIENT) + data[HEADER_BYTES:]
    with pytest.raises(MalformedControl, match="wrong signature"):
        decode(forged, CLIENT)


def test_while_a_fleet_is_renewed_those_who_write_the_old_version_take_both() -> None:
    old = Dialect(KEY, 2, check=CHECK)
    assert decode(encode(MARKER, Dialect(KEY, 2)), old) == MARKER
    assert decode(encode(MARKER, AGENT), old) == MARKER


def test_with_unsigned_notices_those_who_write_the_new_version_take_the_old_one_too() -> None:
    old, renewed = Dialect(KEY, 2), Dialect(KEY, 3, CHECK, unsigned=True)
    assert decode(encode(MARKER, old), renewed) == MARKER
    assert decode(encode(MARKER, AGENT), renewed) == MARKER
    with pytest.raises(MalformedControl):
        decode(encode(MARKER, Dialect(KEY, 3)), renewed)


def test_data_is_as_long_as_ever_and_signed_by_nobody() -> None:
    message = Envelope(0, 7, 1, 2, 0, 1, 0, b"data")
    assert encode(message, AGENT)[4:] == encode(message, Dialect(b"other", 2))[4:]


def test_a_checker_is_a_value_and_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(CLIENT)) == CLIENT  # noqa: S301  # our own
    switch = notice(Switch("t", Route(3, Strategy.SINGLE, ("b1",)), (), 1), 3)
    assert decode(encode(switch, AGENT), pickle.loads(pickle.dumps(CLIENT))) == switch  # noqa: S301


def test_what_is_no_key_is_told_without_being_shown() -> None:
    for wrong, said in (("zz" * 32, "hexadecimal"), ("ab", "holds 1 bytes; expected 32")):
        for use in (signing, Checker, public_half):
            with pytest.raises(ConfigError, match=said) as told:
                use(wrong)
            assert wrong not in str(told.value)
