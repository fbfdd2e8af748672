"""Records of a log: what is written is read; nothing else is taken for one."""

import pytest

from nearcast.domain.errors import ConfigError, MalformedEnvelope, UnknownVersion, WireError
from nearcast.domain.log import Position
from nearcast.wire.record import LogMessage, Record, decode_record, encode_record

RECORD = Record((LogMessage(5, 17, b"a"), LogMessage(6, 18, b"")), (3, 9), doubt=True)


def test_a_record_is_read_as_it_was_written() -> None:
    assert decode_record(encode_record(RECORD)) == RECORD


def test_a_record_that_is_cut_short_or_too_long_is_refused() -> None:
    data = encode_record(RECORD)
    for size in range(len(data)):
        with pytest.raises(WireError):
            decode_record(data[:size])
    with pytest.raises(MalformedEnvelope):
        decode_record(data + b"x")


def test_a_record_of_another_format_is_refused_as_such() -> None:
    data = bytearray(encode_record(RECORD))
    data[2] = 9
    with pytest.raises(UnknownVersion, match="format 9"):
        decode_record(bytes(data))


@pytest.mark.parametrize("position", [Position(0), Position(3, ((3, 1, 0), (4, 7, 2))), Position(3, (), ((4, 8, 9),))])
def test_a_position_is_a_word_and_back(position: Position) -> None:
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize("text", ["", "x", "1~2-3", "1~1-2-3-4", "1~~1-a-2", "-"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not the position"):
        Position.parse(text)
