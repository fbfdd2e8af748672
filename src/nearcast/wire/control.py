"""Control messages between clients, agents and the coordinator, and their sealed encoding.

    version (1 byte) | signature (16 bytes; 64 when it is an agent's own) | MessagePack

Who sends what, and on which subject, is listed in docs/protocol.md. `Switch`, `Marker`, `Beat`, `Gone` and `Broken`
ride on the topic itself, inside an envelope, because a message on another subject overtakes data (rule 2).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from itertools import chain, repeat

import msgspec

from nearcast.domain.broker import Addresses
from nearcast.domain.errors import ConfigError, MalformedControl
from nearcast.domain.log import TopicLog
from nearcast.domain.route import Delegation, Route, Strategy
from nearcast.wire.brokers import BrokerOrder, BrokerStanding
from nearcast.wire.channels import FromFollowers, FromPipeline, Homing, ToFollower, ToPipeline
from nearcast.wire.dialect import NOTICE_SIGNATURE_BYTES, SIGNATURE_BYTES, Dialect, must_be_known
from nearcast.wire.homes import HomesOrder, HomesTold
from nearcast.wire.loads import Counts, Load
from nearcast.wire.logs import KeepOrder
from nearcast.wire.places import Echo, Located, Placed, PlacesOrder, PlacesTold, Position, Probe
from nearcast.wire.processors import ProcessOrder
from nearcast.wire.promises import PromiseOrder, SnapshotOrder, SnapshotPart, StandingOrder, Standings
from nearcast.wire.rebalancing import Foreseen, RebalanceOrder, Rebalancing

AGENT_SUBJECT = "_nearcast.agent"
"""On every broker: what clients and peer agents say to the agent beside it."""

COORDINATOR_SUBJECT = "_nearcast.coordinator"
"""On the control bus: what agents and operators say to whoever leads."""


def client_subject(client: str) -> str:
    """On every broker the client is connected to: what agents answer it."""
    return f"_nearcast.client.{client}"


def agent_bus_subject(broker: str) -> str:
    """On the control bus: what the coordinator says to one agent."""
    return f"_nearcast.agent.{broker}"


def inlet_subject(topic: str) -> str:
    """On the brokers of a topic with a processor: what is to be processed before it is put on the topic itself."""
    return f"_nearcast.in.{topic}"


class _Message(msgspec.Struct, frozen=True, tag=True, gc=False):
    topic: str


# client -> agent


class Hello(_Message, frozen=True):
    """Where should I be? `asked_s` is echoed, so that a lease counts from when the question was sent (rule 7)."""

    client: str
    publisher: int  # 0 for a subscriber
    epoch: int
    attached: bool
    asked_s: float
    ring_version: int
    home: str = ""  # where the client is at home; "" where nobody has told it


class Bye(_Message, frozen=True):
    client: str
    publisher: int


class Ask(_Message, frozen=True):
    """Launch a marker generation for me: I am attached wherever I want to be."""

    client: str


# agent -> client


class Welcome(_Message, frozen=True):
    """The route as told so far. `sources`: brokers whose agents forward; `floor`: the oldest epoch still alive.

    `addresses`: of the brokers named here that came later than the files which clients have.
    """

    route: Route
    sources: tuple[str, ...]
    floor: int
    lost: tuple[str, ...]
    lease_s: float
    asked_s: float
    ring_version: int
    ring: tuple[str, ...]
    publisher: int = 0  # which of the client's machines asked; 0 for its subscriber
    registered: str = ""  # the broker whose agent now holds a lease on the asker, and would miss it; "" for none
    addresses: Addresses = ()
    log: TopicLog | None = None  # of a persistent topic, up to the route's epoch

    def __post_init__(self) -> None:
        if self.ring_version:  # without one it says nothing of the ring
            _must_be_ring(self.ring)


class Unsure(_Message, frozen=True):
    """I cannot say: ask elsewhere. `leased` False: because I hold no lease myself (rule 9)."""

    asked_s: float
    publisher: int
    leased: bool
    ring_version: int
    ring: tuple[str, ...]
    addresses: Addresses = ()

    def __post_init__(self) -> None:
        if self.ring_version:
            _must_be_ring(self.ring)


class Generation(_Message, frozen=True):
    """The answer to `Ask`: wait for this generation, or a later one of the same origin and incarnation."""

    epoch: int
    origin: str
    incarnation: int
    generation: int
    sources: tuple[str, ...]
    in_s: float = 0.0  # how long from now it is launched


class Hold(_Message, frozen=True):
    """Publish nothing for so long: the queue of the topic's processor is full. 0: go on."""

    publisher: int
    seconds: float


# agent -> agent


class Launch(_Message, frozen=True):
    origin: str
    incarnation: int
    generation: int


class Spooled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message of a topic's spool; publisher 0 for one that came without a number."""

    publisher: int
    seq: int
    sent_ns: int
    payload: bytes


class Copies(_Message, frozen=True):
    """These have been spooled at the sender's: who processes the topic too has them in its spool from now on."""

    messages: tuple[Spooled, ...]


# agent -> everyone attached to the topic


class Switch(_Message, frozen=True):
    route: Route
    sources: tuple[str, ...]
    floor: int
    lost: tuple[str, ...] = ()
    addresses: Addresses = ()


class Marker(_Message, frozen=True):
    """`ended`: legs that ended at `source` and may matter, as (publisher, last, brokers it sent to) (rule 6).

    `firsts`: where each of them began; an agent that does not say takes every leg to have begun with number 1.
    """

    origin: str
    incarnation: int
    generation: int
    source: str
    ended: tuple[tuple[int, int, tuple[str, ...]], ...]
    firsts: tuple[int, ...] = ()

    def legs(self) -> Iterator[tuple[int, int, int, tuple[str, ...]]]:
        """(publisher, first, last, brokers) of each leg that ended."""
        for (publisher, last, brokers), first in zip(self.ended, chain(self.firsts, repeat(1)), strict=False):
            yield publisher, first, last, brokers


class Beat(_Message, frozen=True):
    """Nothing new: the trail around it shows the path's session and count."""


class Gone(_Message, frozen=True):
    """A publisher's lease ran out without a goodbye."""

    publisher: int


class Broken(_Message, frozen=True):
    """The agent of `source` starts anew, or gave up a resend: what it should have forwarded before may be missing."""

    source: str


# coordinator -> agent, fenced by `term` (rule 10)


class Prepare(_Message, frozen=True):
    term: int
    epoch: int
    routes: tuple[Route, ...]
    told: int
    lost: tuple[str, ...]
    addresses: Addresses = ()
    log: TopicLog | None = None

    def __post_init__(self) -> None:
        if not self.routes:
            raise ValueError("a topic is prepared with at least one route")


class Tell(_Message, frozen=True):
    """Clients may learn the epoch now: `eager` at once, else with the first publication that comes by."""

    term: int
    epoch: int
    lost: tuple[str, ...]
    eager: bool = True


class Release(_Message, frozen=True):
    term: int
    floor: int
    log: TopicLog | None = None


class RingChange(msgspec.Struct, frozen=True, tag=True):
    """First announced, then made (rule 11). While it is announced, topics that change owner take nobody new."""

    term: int
    version: int
    brokers: tuple[str, ...]
    made: bool
    addresses: Addresses = ()

    def __post_init__(self) -> None:
        _must_be_ring(self.brokers)


class Renew(msgspec.Struct, frozen=True, tag=True):
    """The coordinator's answer to an agent's `Alive`: the agent's lease, counted from `asked_s` (rule 9).

    `fleet_s`: the fleet's time when it was sent; 0 from a leader that does not say. `at`: where the broker is, by all
    that agents have measured; None while that is not known.
    """

    term: int
    asked_s: float
    lease_s: float
    ring_version: int
    ring: tuple[str, ...]
    addresses: Addresses = ()
    fleet_s: float = 0.0
    at: Position | None = None

    def __post_init__(self) -> None:
        _must_be_ring(self.ring)


# agent -> coordinator


class Ack(_Message, frozen=True):
    """`of` names the command: prepare, tell or release."""

    broker: str
    incarnation: int
    term: int
    of: str
    epoch: int


class Quiet(_Message, frozen=True):
    """No client of an epoch below this one is left here, and none has been heard for 2L."""

    broker: str
    epoch: int


class Frozen(msgspec.Struct, frozen=True, tag=True):
    """The answer to an announced ring: the topics that no route names and that somebody may be using here."""

    broker: str
    version: int
    topics: tuple[str, ...]


class Alive(msgspec.Struct, frozen=True, tag=True):
    broker: str
    incarnation: int
    asked_s: float
    ring_version: int
    reads: int = 1  # the newest protocol version that it reads; the first did not say
    fleet_s: float = 0.0  # the fleet's time as it knows it; 0 while it does not


# operator <-> coordinator: asked and answered on the control bus, by whoever leads


class MoveOrder(_Message, frozen=True):
    """Move a topic. `number` tells an operator's questions apart, and comes back with the answer."""

    asker: str
    number: int
    strategy: Strategy
    brokers: tuple[str, ...]
    eager: bool = True
    reason: str = ""
    delegation: Delegation | None = None


Change = MoveOrder | BrokerOrder | PromiseOrder | KeepOrder | ProcessOrder | RebalanceOrder
"""What changes something."""


class DryRun(msgspec.Struct, frozen=True, tag=True):
    """What would come of this order? A message of its own: a leader that does not know it does nothing."""

    asker: str
    number: int
    order: Change


class StatusOrder(msgspec.Struct, frozen=True, tag=True):
    asker: str
    number: int


class LoadOrder(msgspec.Struct, frozen=True, tag=True):
    """What does the broker's agent report? One question per broker: the answers are large."""

    asker: str
    number: int
    broker: str


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """What became of an order: the new epoch, or why it was refused."""

    number: int
    epoch: int
    refused: str = ""


class AgentState(msgspec.Struct, frozen=True):
    """`silent_s`: since when the leader has not heard it; `reads`: the newest protocol version that it reads."""

    broker: str
    present: bool
    silent_s: float
    reads: int = 1


class Status(msgspec.Struct, frozen=True, tag=True):
    """`moving`: topics whose move is not over."""

    number: int
    leader: str
    term: int
    agents: tuple[AgentState, ...]
    topics: int
    moving: tuple[str, ...]
    ring_version: int
    ring: tuple[str, ...]
    brokers: tuple[BrokerStanding, ...] = ()


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """The newest report of a broker, `age_s` after it came; None when there is none."""

    number: int
    load: Load | None
    age_s: float = 0.0


OnTopic = Switch | Marker | Beat | Gone | Broken
ToAgent = Hello | Bye | Ask | Launch | Copies | Prepare | Tell | Release | RingChange | Renew
ToClient = Welcome | Unsure | Generation | Hold
Order = (
    MoveOrder
    | StatusOrder
    | LoadOrder
    | RebalanceOrder
    | BrokerOrder
    | PromiseOrder
    | KeepOrder
    | ProcessOrder
    | StandingOrder
    | SnapshotOrder
    | PlacesOrder
    | HomesOrder
    | DryRun
)
Answered = Outcome | Status | Loaded | Rebalancing | Standings | SnapshotPart | PlacesTold | HomesTold | Foreseen
ToCoordinator = Ack | Quiet | Frozen | Alive | Load | Placed | Order
Survey = Counts | Probe | Located | Echo
"""Told of loads and places: beside the protocol, which does without."""
Channels = FromFollowers | ToFollower | ToPipeline | FromPipeline | Homing
Control = OnTopic | ToAgent | ToClient | Survey | ToCoordinator | Answered | Channels

_WHOLE = 3  # from this version on the signature of a notice covers its envelope
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)


def seal(message: Control, dialect: Dialect) -> bytes:
    body = _encoder.encode(message)
    return bytes((dialect.version,)) + dialect.signature(body, dialect.version) + body


def unseal(data: bytes, dialect: Dialect) -> Control:
    """Raises MalformedControl or UnknownVersion; never anything else, whatever the bytes."""
    if len(data) <= 1 + SIGNATURE_BYTES:
        raise MalformedControl(f"control message of {len(data)} bytes is too short")
    version, body = data[0], data[1 + SIGNATURE_BYTES :]
    must_be_known(version, "control message")
    if not hmac.compare_digest(data[1 : 1 + SIGNATURE_BYTES], dialect.signature(body, version)):
        raise MalformedControl("control message has a wrong signature; do both sides share the fleet's key?")
    return _decoded(body)


def seal_on_topic(message: OnTopic, dialect: Dialect, before: bytes) -> bytes:
    """`before`: the envelope's header and trail, which stand before it."""
    if dialect.version < _WHOLE:
        return seal(message, dialect)
    body, version = _encoder.encode(message), bytes((dialect.version,))
    signed = _signed(before, body)
    signature = dialect.signature(signed, dialect.version) if dialect.sign is None else dialect.sign(signed)
    return version + signature + body


def unseal_on_topic(data: bytes, dialect: Dialect, before: bytes) -> OnTopic:
    """Raises as `unseal` does."""
    version = data[0] if data else 0
    if version < _WHOLE:
        if dialect.check is not None and dialect.version >= _WHOLE and not dialect.unsigned:
            raise MalformedControl("a notice without an agent's signature: anybody could have made it")
        message = unseal(data, dialect)
    else:
        message = _unseal_whole(data, dialect, before)
    if not isinstance(message, Switch | Marker | Beat | Gone | Broken):
        raise MalformedControl(f"a {type(message).__name__} does not belong on a topic")
    return message


def _unseal_whole(data: bytes, dialect: Dialect, before: bytes) -> Control:
    must_be_known(data[0], "control message")
    end = 1 + (SIGNATURE_BYTES if dialect.check is None else NOTICE_SIGNATURE_BYTES)
    signature, body = data[1:end], data[end:]
    signed = _signed(before, body)
    if dialect.check is None:
        right = hmac.compare_digest(signature, dialect.signature(signed, data[0]))
    else:
        right = dialect.check(signature, signed)
    if not right:
        raise MalformedControl("a notice has a wrong signature; is it an agent's of this fleet?")
    return _decoded(body)


def _signed(before: bytes, body: bytes) -> bytes:
    return len(before).to_bytes(4, "little") + before + body


def _decoded(body: bytes) -> Control:
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, ConfigError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise MalformedControl(f"control message is not readable: {error}") from error


def _must_be_ring(brokers: tuple[str, ...]) -> None:
    if not brokers or len(set(brokers)) < len(brokers):
        raise ValueError(f"not the brokers of a ring: {brokers!r}")
