"""The envelope: a fixed binary header before an untouched payload (DESIGN section 3).

    offset  size  field
    0       2     magic
    2       1     protocol version
    3       1     flags
    4       8     publisher id
    12      8     sequence number per (publisher, topic), from 1
    20      4     route epoch the publisher used
    24      4     route epoch of the message before this leg
    28      8     first sequence number of this leg
    36      8     send time, nanoseconds: odd when it is the fleet's time, even when it is the sender's wall clock
    44            trail, only when FORWARDED
    ...           payload

The trail is what a forwarding agent adds: the path's session and counter (rule 4), the newest epoch the agent knew and
the brokers the message has visited (rule 5).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from nearcast.domain.errors import MalformedEnvelope
from nearcast.wire.control import OnTopic, seal_on_topic, unseal_on_topic
from nearcast.wire.dialect import NEWEST, OLDEST, Dialect, must_be_known

MAGIC = b"\xa9\xce"

CONTROL = 1  # the payload is a control message of an agent
FORWARDED = 2  # an agent carried it here from another broker; a trail follows the header
END = 4  # the publisher's leg ends: `seq` is the last number it used on it
HEARTBEAT = 8  # the publisher's high-water mark: `seq` is the last number it used at all
PLAIN = 16  # the payload came without a header, from a client that is not ours
SEVERAL = 32  # a processor made another number of messages of it than one: the payload is `pack`ed, perhaps empty
LOST = 64  # it was published, and left out where it should have been processed; there is no payload
_KNOWN_FLAGS = CONTROL | FORWARDED | END | HEARTBEAT | PLAIN | SEVERAL | LOST

_HEADER = struct.Struct("<2sBBQQIIQq")
_TRAIL = struct.Struct("<QQIB")
_SIZE = struct.Struct("<I")
HEADER_BYTES = _HEADER.size
MOST_PAYLOAD_BYTES = 1_000_000
"""Header and trail come on top: the whole must fit what every kind of server takes (NATS: 1 MiB by default)."""


class Trail(msgspec.Struct, frozen=True, gc=False):
    """How a forwarded message came here: over which path, as which frame of it, and where it has been."""

    source: str
    session: int
    count: int
    known_epoch: int
    visited: tuple[str, ...]


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """`notice` is the decoded control message when CONTROL is set; the payload is then empty."""

    flags: int
    publisher: int
    seq: int
    epoch: int
    before: int
    first: int
    sent_ns: int
    payload: bytes
    trail: Trail | None = None
    notice: OnTopic | None = None


def notice(message: OnTopic, epoch: int) -> Envelope:
    """A control message as it rides on its topic."""
    return Envelope(CONTROL, 0, 0, epoch, 0, 0, 0, b"", None, message)


def encode(envelope: Envelope, dialect: Dialect) -> bytes:
    trail = envelope.trail
    header = _HEADER.pack(
        MAGIC,
        dialect.version,
        envelope.flags if trail is None else envelope.flags | FORWARDED,
        envelope.publisher,
        envelope.seq,
        envelope.epoch,
        envelope.before,
        envelope.first,
        envelope.sent_ns,
    )
    if trail is None:
        message = envelope.notice
        return header + (envelope.payload if message is None else seal_on_topic(message, dialect, header))
    names = (trail.source, *trail.visited)
    parts = [header, _TRAIL.pack(trail.session, trail.count, trail.known_epoch, len(names))]
    for name in names:
        raw = name.encode()
        parts.append(bytes((len(raw),)))
        parts.append(raw)
    if envelope.notice is None:
        parts.append(envelope.payload)
        return b"".join(parts)
    before = b"".join(parts)
    return before + seal_on_topic(envelope.notice, dialect, before)


def decode(data: bytes, dialect: Dialect) -> Envelope:
    """The envelope in `data`; bytes that do not start with our magic are a plain client's message.

    Raises a WireError, and nothing else, for bytes that claim to be ours and are not readable.
    """
    if data[:2] != MAGIC:
        return plain(data)
    if len(data) < HEADER_BYTES:
        raise MalformedEnvelope(f"envelope of {len(data)} bytes is shorter than its header of {HEADER_BYTES}")
    _, version, flags, publisher, seq, epoch, before, first, sent_ns = _HEADER.unpack_from(data)
    if not OLDEST <= version <= NEWEST:
        must_be_known(version, "envelope")
    if flags & ~_KNOWN_FLAGS:
        raise MalformedEnvelope(f"envelope has unknown flags {flags:#04x}")
    if not flags & (FORWARDED | CONTROL | SEVERAL):
        return Envelope(flags, publisher, seq, epoch, before, first, sent_ns, data[HEADER_BYTES:])
    trail, offset = _decode_trail(data) if flags & FORWARDED else (None, HEADER_BYTES)
    message = unseal_on_topic(data[offset:], dialect, data[:offset]) if flags & CONTROL else None
    payload = b"" if message else data[offset:]
    if flags & SEVERAL:
        unpack(payload)
    return Envelope(flags & ~FORWARDED, publisher, seq, epoch, before, first, sent_ns, payload, trail, message)


def plain(data: bytes) -> Envelope:
    """A message of a client that is not ours: unsequenced (publisher 0, sequence 0)."""
    return Envelope(PLAIN, 0, 0, 0, 0, 0, 0, data)


def pack(payloads: Sequence[bytes]) -> bytes:
    """Several payloads, or none, as the payload of one envelope that is SEVERAL."""
    return b"".join(part for each in payloads for part in (_SIZE.pack(len(each)), each))


def unpack(data: bytes) -> list[bytes]:
    """Raises MalformedEnvelope."""
    out, at = [], 0
    while at < len(data):
        end = at + _SIZE.size
        if end > len(data) or (size := _SIZE.unpack_from(data, at)[0]) > len(data) - end:
            raise MalformedEnvelope(f"several messages in one of {len(data)} bytes are cut short")
        out.append(data[end : end + size])
        at = end + size
    return out


def _decode_trail(data: bytes) -> tuple[Trail, int]:
    offset = HEADER_BYTES + _TRAIL.size
    if len(data) < offset:
        raise MalformedEnvelope("forwarded envelope ends inside its trail")
    session, count, known_epoch, size = _TRAIL.unpack_from(data, HEADER_BYTES)
    if size < 1:
        raise MalformedEnvelope("forwarded envelope names no source broker")
    names = []
    try:
        for _ in range(size):
            end = offset + 1 + data[offset]
            if end > len(data):
                raise MalformedEnvelope("forwarded envelope ends inside its list of visited brokers")
            names.append(data[offset + 1 : end].decode())
            offset = end
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedEnvelope(f"forwarded envelope has an unreadable broker name: {error}") from error
    return Trail(names[0], session, count, known_epoch, tuple(names[1:])), offset
