"""A forwarding path is a session with a counter per topic (rule 4): both of its ends.

The sender numbers every frame and keeps what the broker has not confirmed, bounded, to send it again after a broken
connection. The receiver knows from session and number whether it has all of them.
"""

from __future__ import annotations

from collections import deque

import msgspec

from nearcast.wire.control import Broken, Marker
from nearcast.wire.envelope import Envelope, Trail

MOST_UNCONFIRMED = 4096


class Outbound:
    """From the agent of `source` to one broker, for one topic."""

    __slots__ = ("confirmed_count", "count", "forgotten_count", "session", "source", "unconfirmed", "up")

    def __init__(self, source: str, session: int) -> None:
        self.source = source
        self.session = session
        self.count = 0
        self.confirmed_count = 0
        self.unconfirmed: deque[Envelope] = deque()
        self.forgotten_count = 0
        self.up = True

    def frame(self, envelope: Envelope, known_epoch: int, visited: tuple[str, ...]) -> Envelope:
        """The next frame of this session; it is also kept until the broker confirms it."""
        self.count += 1
        trail = Trail(self.source, self.session, self.count, known_epoch, visited)
        framed = msgspec.structs.replace(envelope, trail=trail)
        self.unconfirmed.append(framed)
        if len(self.unconfirmed) > MOST_UNCONFIRMED:
            self.forgotten_count = _count(self.unconfirmed.popleft())
        return framed

    @property
    def whole(self) -> bool:
        """Whether everything that a broken connection may have swallowed can be sent again."""
        return self.forgotten_count <= self.confirmed_count

    def confirmed(self, count: int) -> None:
        while self.unconfirmed and _count(self.unconfirmed[0]) <= count:
            self.unconfirmed.popleft()
        self.confirmed_count = max(self.confirmed_count, count)

    @property
    def pending(self) -> bool:
        return self.up and bool(self.unconfirmed)


class Inbound:
    """What a subscriber has seen of one path: from the agent of a source, through one broker."""

    __slots__ = ("count", "heard_s", "session")

    def __init__(self, trail: Trail, now: float) -> None:
        self.session = trail.session
        self.count = trail.count
        self.heard_s = now

    def follows(self, trail: Trail, now: float) -> bool:
        """Takes the next frame; False when frames before it are missing.

        A new session is whole from its first frame: one that follows a broken one says so there, with `Broken`.
        """
        whole = trail.count == 1 if trail.session != self.session else trail.count <= self.count + 1
        if trail.session != self.session or trail.count > self.count:
            self.session, self.count = trail.session, trail.count
        self.heard_s = now
        return whole


def belongs(envelope: Envelope, topic: str, via: str) -> bool:
    """Whether a notice means anything at this broker: one that was signed can be sent again by anybody who may publish,
    on another topic or at another broker. An agent's own is on its own broker alone; elsewhere an agent carried it, and
    says where to.
    """
    notice, trail = envelope.notice, envelope.trail
    if notice is None or notice.topic != topic:
        return False
    if trail is not None:
        return trail.source != via and via in trail.visited
    return not isinstance(notice, Marker | Broken) or notice.source == via


def _count(framed: Envelope) -> int:
    assert framed.trail is not None
    return framed.trail.count
