"""The envelope: what is read, what is refused, what is somebody else's."""

import msgspec
import pytest

from nearcast.domain.errors import MalformedControl, MalformedEnvelope, UnknownVersion, WireError
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Beat, Hello, Switch, seal_on_topic
from nearcast.wire.dialect import NEWEST, OLDEST, Dialect
from nearcast.wire.envelope import (
    CONTROL,
    FORWARDED,
    HEADER_BYTES,
    HEARTBEAT,
    MAGIC,
    PLAIN,
    SEVERAL,
    Envelope,
    Trail,
    decode,
    encode,
    notice,
    pack,
    unpack,
)

DIALECT = Dialect(b"fleet")
MESSAGE = Envelope(0, 7, 3, 2, 1, 2, 123, b"payload")
TRAIL = Trail("H0", 5, 9, 2, ("H0", "H1"))
FORWARD = Envelope(0, 7, 3, 2, 1, 2, 123, b"payload", TRAIL)
VERSION_AT, FLAGS_AT = 2, 3


def changed(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes((value,)) + data[at + 1 :]


def test_the_payload_follows_the_header_untouched() -> None:
    assert encode(MESSAGE, DIALECT)[HEADER_BYTES:] == b"payload"


def test_a_forwarded_message_comes_back_with_its_trail() -> None:
    assert decode(encode(FORWARD, DIALECT), DIALECT) == FORWARD


def test_a_notice_comes_back_as_the_control_message_it_was() -> None:
    switch = notice(Switch("t", Route(3, Strategy.HOMED, ("H0", "H1")), ("H0",), 2, ("H2",)), 3)
    assert decode(encode(switch, DIALECT), DIALECT) == switch


def test_a_message_without_our_header_is_unsequenced() -> None:
    envelope = decode(b'{"plain": true}', DIALECT)
    assert (envelope.flags, envelope.publisher, envelope.seq) == (PLAIN, 0, 0)
    assert envelope.payload == b'{"plain": true}'


@pytest.mark.parametrize("data", [b"", b"\xa9", b"x"])
def test_a_message_too_short_for_our_magic_is_unsequenced_too(data: bytes) -> None:
    assert decode(data, DIALECT).payload == data


def test_a_plain_message_stays_plain_when_an_agent_forwards_it() -> None:
    plain = Envelope(PLAIN, 0, 0, 0, 0, 0, 0, b"\xa9\xce looks like ours", TRAIL)
    assert decode(encode(plain, DIALECT), DIALECT) == plain


def test_an_unknown_version_is_named() -> None:
    with pytest.raises(UnknownVersion, match=f"version 9, this side reads {OLDEST} to {NEWEST}"):
        decode(changed(encode(MESSAGE, DIALECT), VERSION_AT, 9), DIALECT)


def test_a_cut_header_is_refused() -> None:
    with pytest.raises(MalformedEnvelope, match="shorter than its header"):
        decode(encode(MESSAGE, DIALECT)[: HEADER_BYTES - 1], DIALECT)


def test_unknown_flags_are_refused() -> None:
    with pytest.raises(MalformedEnvelope, match="unknown flags 0x80"):
        decode(changed(encode(MESSAGE, DIALECT), FLAGS_AT, 0x80), DIALECT)


def test_a_trail_cut_anywhere_is_refused() -> None:
    whole = encode(Envelope(0, 7, 3, 2, 1, 2, 123, b"", TRAIL), DIALECT)
    for size in range(HEADER_BYTES, len(whole)):
        with pytest.raises(MalformedEnvelope):
            decode(whole[:size], DIALECT)


def test_a_trail_that_names_no_source_is_refused() -> None:
    names_at = HEADER_BYTES + 8 + 8 + 4
    with pytest.raises(MalformedEnvelope, match="no source broker"):
        decode(changed(encode(FORWARD, DIALECT), names_at, 0), DIALECT)


def test_a_broker_name_that_is_not_text_is_refused() -> None:
    first_name_at = HEADER_BYTES + 8 + 8 + 4 + 1 + 1
    with pytest.raises(MalformedEnvelope, match="unreadable broker name"):
        decode(changed(encode(FORWARD, DIALECT), first_name_at, 0xFF), DIALECT)


def test_a_notice_signed_with_another_key_is_refused() -> None:
    with pytest.raises(MalformedControl, match="wrong signature"):
        decode(encode(notice(Beat("t"), 1), Dialect(b"other")), DIALECT)


def test_a_message_that_only_claims_to_be_a_notice_is_refused() -> None:
    claims = encode(MESSAGE, DIALECT)
    with pytest.raises(WireError):
        decode(changed(claims, FLAGS_AT, CONTROL), DIALECT)


def test_a_control_message_that_does_not_belong_on_a_topic_is_refused() -> None:
    hello = Hello("t", "c", 0, 0, attached=False, asked_s=0.0, ring_version=0)
    header = changed(encode(MESSAGE, DIALECT)[:HEADER_BYTES], FLAGS_AT, CONTROL)
    with pytest.raises(MalformedControl, match="a Hello does not belong on a topic"):
        decode(header + seal_on_topic(hello, DIALECT, header), DIALECT)  # type: ignore[arg-type]  # as forged


def test_the_flag_of_a_forward_follows_from_its_trail() -> None:
    assert encode(FORWARD, DIALECT)[FLAGS_AT] & FORWARDED
    assert not encode(MESSAGE, DIALECT)[FLAGS_AT] & FORWARDED
    assert decode(encode(FORWARD, DIALECT), DIALECT).flags == 0


def test_a_mark_keeps_its_flag_and_its_empty_payload() -> None:
    mark = Envelope(HEARTBEAT, 7, 3, 2, 1, 2, 0, b"")
    assert decode(encode(mark, DIALECT), DIALECT) == mark


def test_the_magic_is_no_text_so_that_plain_text_is_never_taken_for_ours() -> None:
    with pytest.raises(UnicodeDecodeError):
        MAGIC.decode()


def test_every_version_is_read_whichever_is_written() -> None:
    for version in range(OLDEST, NEWEST + 1):
        data = encode(FORWARD, Dialect(DIALECT.key, version))
        assert data[VERSION_AT] == version
        assert decode(data, DIALECT) == FORWARD


def test_several_messages_in_one_come_back_and_one_that_is_cut_short_is_refused() -> None:
    for payloads in ([], [b""], [b"a", b"", b"bc"]):
        several = Envelope(SEVERAL, 7, 3, 2, 1, 2, 123, pack(payloads))
        for each in (several, msgspec.structs.replace(several, trail=TRAIL)):
            found = decode(encode(each, DIALECT), DIALECT)
            assert found == each
            assert unpack(found.payload) == payloads
    data = encode(Envelope(SEVERAL, 7, 3, 2, 1, 2, 123, pack([b"abc"])), DIALECT)
    for size in (1, 4, 6):
        with pytest.raises(MalformedEnvelope, match="cut short"):
            decode(data[:-size], DIALECT)
