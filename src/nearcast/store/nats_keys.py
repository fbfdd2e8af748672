"""Keys as the subjects of a NATS bucket, and back.

A part of a key between slashes becomes one token of a subject, so that the server itself can pick out what is below
`topic/`; a dot becomes a slash in exchange. What a bucket's key cannot have is written as `=` and two hexadecimal
digits for each byte of its UTF-8, and an empty part as `=` alone:

    topic/game.room1    topic.game/room1
    topic/a:b//c        topic.a=3Ab.=.c
"""

import re

MAX_KEY_BYTES = 1_000  # of the encoded key; a server takes lines of 4,096 bytes, and a line has more than the key

_EMPTY = "="
_ESCAPED = re.compile(r"[^A-Za-z0-9_./-]")
_ESCAPE = re.compile("((?:=[0-9A-F]{2})+)")
_SWAP = str.maketrans("./", "/.")


def encoded(key: str) -> str:
    """Raises ValueError for a key that is too long."""
    out = ".".join(part or _EMPTY for part in _ESCAPED.sub(_escape, key).translate(_SWAP).split("."))
    if len(out) > MAX_KEY_BYTES:
        raise ValueError(
            f"key {key[:60]!r}... takes {len(out)} bytes when encoded; at most {MAX_KEY_BYTES} are allowed"
        )
    return out


def decoded(name: str) -> str | None:
    """None for what `encoded` cannot have made: another program's."""
    try:
        parts = ["" if part == _EMPTY else _ESCAPE.sub(_unescape, part) for part in name.split(".")]
        key = ".".join(parts).translate(_SWAP)
        return key if encoded(key) == name else None
    except ValueError:
        return None


def below(prefix: str) -> str:
    """What matches, in a bucket, all keys that begin with `prefix`; others too, unless it ends with a slash."""
    whole, slash, _ = prefix.rpartition("/")
    return f"{encoded(whole)}.>" if slash else ">"


def _escape(found: re.Match[str]) -> str:
    return "".join(f"={byte:02X}" for byte in found.group().encode())


def _unescape(found: re.Match[str]) -> str:
    return bytes.fromhex(found.group().replace("=", "")).decode()
