"""A record of a log: what a publisher appends at once, one or more messages with consecutive numbers.

offset  size  field
0       2     magic
2       1     format
3       1     flags
4       8     number of the first message
12      4     epoch of the segment that has the publisher's record before this one; 0 for none
16      8     number of that record there
24      4     how many messages
28            each: send time, wall clock, nanoseconds (8); size of the payload (4); payload
"""

from __future__ import annotations

import struct

import msgspec

from nearcast.domain.errors import MalformedEnvelope, UnknownVersion

_MAGIC = b"\xa9\xcf"
_FORMAT = 1
_HEADER = struct.Struct("<2sBBQIQI")
_MESSAGE = struct.Struct("<qI")
_DOUBT = 1
MOST_RECORD_BYTES = 1_040_000
"""With a message of the largest size it still fits what a NATS server takes by default."""


class LogMessage(msgspec.Struct, frozen=True, gc=False):
    seq: int
    sent_ns: int
    payload: bytes

    @property
    def size_bytes(self) -> int:
        return _MESSAGE.size + len(self.payload)


class Record(msgspec.Struct, frozen=True, gc=False):
    """`before`: (epoch, number) of the publisher's last record that is known to be written.

    `doubt`: messages of this one may stand in that segment too, behind it, or in one between it and this: whether they
    were written there is not known.
    """

    messages: tuple[LogMessage, ...]
    before: tuple[int, int] = (0, 0)
    doubt: bool = False

    @property
    def first(self) -> int:
        return self.messages[0].seq

    @property
    def last(self) -> int:
        return self.messages[-1].seq


def encode_record(record: Record) -> bytes:
    flags = _DOUBT if record.doubt else 0
    parts = [_HEADER.pack(_MAGIC, _FORMAT, flags, record.first, *record.before, len(record.messages))]
    for message in record.messages:
        parts += (_MESSAGE.pack(message.sent_ns, len(message.payload)), message.payload)
    return b"".join(parts)


def decode_record(data: bytes) -> Record:
    """Raises a WireError, and nothing else."""
    try:
        magic, version, flags, first, epoch, number, count = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise MalformedEnvelope("not a record of a log")
        if version != _FORMAT:
            raise UnknownVersion(f"record has format {version}; this process reads {_FORMAT}")
        messages, at = [], _HEADER.size
        for seq in range(first, first + count):
            sent_ns, size = _MESSAGE.unpack_from(data, at)
            at += _MESSAGE.size
            messages.append(LogMessage(seq, sent_ns, data[at : at + size]))
            at += size
    except struct.error as error:
        raise MalformedEnvelope(f"record of {len(data)} bytes is cut short: {error}") from error
    if at != len(data) or not messages:
        raise MalformedEnvelope(f"record of {len(data)} bytes does not hold the {count} messages that it claims")
    return Record(tuple(messages), (epoch, number), bool(flags & _DOUBT))
