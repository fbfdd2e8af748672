"""Topic names: one spelling that every kind of broker takes literally.

The rules are the intersection of what NATS subjects and Redis channels can carry without giving a character a meaning
of its own, so that a topic may move between brokers of both kinds.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from nearcast.domain.errors import TopicNameError

MAX_TOPIC_BYTES = 200

# Subjects that start like this carry nearcast's own control messages.
RESERVED_PREFIX = "_nearcast."

_SERVERS_OWN = {
    "$": "belongs to the NATS server itself",
    "_INBOX.": "belongs to NATS request and reply",
    "__": "belongs to the Redis server itself",
}
BELOW = ".>"
"""At the end of a pattern: all topics that begin with what is before it, and a dot."""

_WILDCARD = re.compile(r"[*>?\[\]]")
_REFUSED = re.compile(r"[^\w./:=@+-]")


@lru_cache(maxsize=16_384)
def validate_topic(name: str) -> str:
    """Return `name` if it can be a topic, else raise TopicNameError saying which rule it breaks.

    Cached, because it runs on every publish.
    """
    reason = _reason_to_refuse(name)
    if reason is not None:
        raise TopicNameError(f"topic {_shortened(name)}: {reason}")
    return name


def validate_pattern(pattern: str) -> str:
    """Return it if it is a topic, or the beginning of some with `.>` behind it, else raise TopicNameError."""
    validate_topic(pattern.removesuffix(BELOW))
    return pattern


def covers(patterns: Iterable[str], topic: str) -> bool:
    """Whether one of them is of this topic."""
    return any(topic == each or (each.endswith(BELOW) and topic.startswith(each[:-1])) for each in patterns)


def _reason_to_refuse(name: str) -> str | None:
    if not name:
        return "is empty; a topic has at least one character"
    if wildcard := _WILDCARD.search(name):
        return f"wildcards ({wildcard.group()!r}) are not supported; publish and subscribe to a topic by its full name"
    for prefix, why in _SERVERS_OWN.items():
        if name.startswith(prefix):
            return f"the prefix {prefix!r} {why}; choose another name"
    if f"{name}.".startswith(RESERVED_PREFIX):
        return f"the prefix {RESERVED_PREFIX!r} is reserved for nearcast itself; choose another name"
    if refused := _REFUSED.search(name):
        return (
            f"has {refused.group()!r} at position {refused.start()}; "
            "allowed are letters, digits and . _ - / : = @ + (no spaces or control characters)"
        )
    if "" in name.split("."):
        return "has an empty part; a dot stands between two parts, never first, last or twice in a row"
    size_bytes = len(name.encode())
    if size_bytes > MAX_TOPIC_BYTES:
        return f"is {size_bytes} bytes long as UTF-8; at most {MAX_TOPIC_BYTES} are allowed"
    # Two spellings of one visible name would be two topics, and nobody could see why.
    if not unicodedata.is_normalized("NFC", name):
        return "is not in Unicode normal form NFC; pass unicodedata.normalize('NFC', name)"
    return None


def _shortened(name: str) -> str:
    return repr(name) if len(name) <= 60 else f"{name[:60]!r}... ({len(name)} characters)"
