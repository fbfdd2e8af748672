"""Subscriptions to channels: between clients and agents, and between agents and the pipeline.

A client follows a subscription at its home: `Follow` says it is there, how far it is, and that it wants what came after
that; the same message renews its lease. What an execution has for a key is one `Notice`, published once at every broker
whose agent has followers of the key. Which keys those are, the agent tells the pipeline (`Wanted`), by differences.
Who its followers are it tells the coordinator (`AtHome`), with those who use homed topics there. Whom the coordinator
wants elsewhere (`Rehome`) is told so by the agent (`HomeAt`).
"""

from __future__ import annotations

import math

import msgspec

from nearcast.domain.broker import Addresses
from nearcast.domain.channel import Parameter, Subscription

PIPELINE_SUBJECT = "_nearcast.pipeline"
"""On the control bus: what agents say to the pipeline that leads."""

RESULTS_PATH = "/results"
"""Where the pipeline answers a `Pull`, over HTTP: a sealed message each way."""

MOST_PART_BYTES = 500_000  # of a result's rows in one message: a NATS server takes 1 MB unless it is told otherwise
MOST_WISHES = 500
MOST_CHANGES = 500
MOST_READY = 10_000
MOST_BYTES_PER_S = 1e15  # of one key: more than all brokers send
MOST_NEAR = 4  # brokers that a client says are near
MOST_AT_HOME = 200_000  # keys, clients and subscriptions in one message, which its bytes bound before
MOST_REHOMED = 2000
_MOST_DIMENSIONS = 32


def channel_subject(key: str) -> str:
    """On every broker: where notices of one distinct subscription are published."""
    return f"_nearcast.channel.{key}"


class Wish(msgspec.Struct, frozen=True):
    """`after`: the last execution that the client has; None: whatever comes from now on.

    `keep_s`: for how long results are still to be made when the client is gone without having unsubscribed. `renews`:
    it lacks nothing that it knows of, and what is under way to it need not be sent again.
    """

    subscription: Subscription
    after: int | None = None
    keep_s: float = 0.0
    renews: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.keep_s < math.inf:
            raise ValueError(f"results are to be kept for {self.keep_s} s")


# client -> agent


Near = tuple[tuple[str, float], ...]
"""Brokers and the round trips to them in seconds, as a client measured them lately, the nearest first."""


class Follow(msgspec.Struct, frozen=True, tag=True):
    """`asked_s` is echoed: a lease counts from when the question was sent. `near`: empty where nothing was measured."""

    client: str
    asked_s: float
    wishes: tuple[Wish, ...]
    near: Near = ()

    def __post_init__(self) -> None:
        _must_be_near(self.client, self.near)
        if len(self.wishes) > MOST_WISHES:
            raise ValueError(f"{len(self.wishes)} wishes in one message; at most {MOST_WISHES}")


class Unfollow(msgspec.Struct, frozen=True, tag=True):
    """`over`: for good; otherwise the client is elsewhere, or will come back. `everybody`: nobody else will either."""

    client: str
    keys: tuple[str, ...]
    asked_s: float  # one that is overtaken by a later `Follow` counts for nothing
    over: bool
    everybody: bool = False


class Describe(msgspec.Struct, frozen=True, tag=True):
    """Which parameters does the channel have? Asked of the agent, which passes it on to the pipeline with its name."""

    client: str
    channel: str
    broker: str = ""


class Muster(msgspec.Struct, frozen=True, tag=True):
    """How many follow each key of this channel at this broker? An operator asks, by the name of a client."""

    client: str
    channel: str


# agent -> client


class Mustered(msgspec.Struct, frozen=True, tag=True):
    """The answer, as (key, followers), in so many `parts`."""

    broker: str
    channel: str
    followers: tuple[tuple[str, int], ...]
    part: int = 1
    parts: int = 1


def mustered(broker: str, channel: str, followers: tuple[tuple[str, int], ...]) -> list[Mustered]:
    """As it is sent: in one message, or in several."""
    pieces = [followers[at : at + MOST_READY] for at in range(0, len(followers), MOST_READY)] or [()]
    return [Mustered(broker, channel, piece, number, len(pieces)) for number, piece in enumerate(pieces, 1)]


class Described(msgspec.Struct, frozen=True, tag=True):
    """pipeline -> agent -> client. `refused`: why there is no such channel."""

    client: str
    channel: str
    parameters: tuple[Parameter, ...] = ()
    refused: str = ""


class Following(msgspec.Struct, frozen=True, tag=True):
    """What comes after execution `after` will be sent. Between that and `said`, which the client said it has, there is
    nothing; of one that had said nothing, no more is known.

    `lease_s`: it is given up when it has not been heard for so long. It renews as often within that as within the
    shortest lease, which may be seldom where many follow.
    """

    key: str
    after: int
    said: int | None
    asked_s: float
    lease_s: float


class HomeAt(msgspec.Struct, frozen=True, tag=True):
    """Your home should be this broker, for channels and homed topics alike. `addresses`: of it, if it came later than
    the files which clients have.
    """

    broker: str
    addresses: Addresses = ()


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """The subscription is over, or never was."""

    key: str
    reason: str


class Result(msgspec.Struct, frozen=True):
    """What one execution has for one key: `rows` is JSON, a list of objects.

    `previous`: the execution before it that had rows for this key; 0 for none. Up to `floor` nothing is kept any more,
    or nothing was made, because nobody had the subscription.
    """

    execution: int
    previous: int
    rows: bytes
    floor: int = 0
    at_s: float = 0.0


class Notice(msgspec.Struct, frozen=True, tag=True):
    """A result for whoever follows the key, or one who lacks it; large ones come in parts, each a piece of `rows`.

    With no part it is a mark: there is nothing between `previous` and `execution`.
    """

    key: str
    result: Result
    part: int = 1
    parts: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.part <= self.parts and self.parts >= 0):
            raise ValueError(f"part {self.part} of {self.parts}")

    @property
    def mark(self) -> bool:
        return self.parts == 0


def parts_of(notice: Notice) -> list[Notice]:
    """As it is sent: in one message, or in several."""
    rows = notice.result.rows
    if len(rows) <= MOST_PART_BYTES:
        return [notice]
    pieces = [rows[at : at + MOST_PART_BYTES] for at in range(0, len(rows), MOST_PART_BYTES)]
    return [
        Notice(notice.key, msgspec.structs.replace(notice.result, rows=piece), number, len(pieces))
        for number, piece in enumerate(pieces, 1)
    ]


# agent -> pipeline


class Want(msgspec.Struct, frozen=True):
    subscription: Subscription
    hold_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.hold_s < math.inf:
            raise ValueError(f"results are to be made for {self.hold_s} s more")


class Wanted(msgspec.Struct, frozen=True, tag=True):
    """Change `number` of the keys that an agent has followers of; an empty one says that it is still there.

    A session begins with change 1 and tells everything; what was told in an earlier one counts until a change is
    `complete`, which is when nothing is left to tell. `drop`: keys, and for how long each is still held; with less
    than 0 not at all, whatever others have asked for.
    """

    broker: str
    session: int
    number: int
    complete: bool
    add: tuple[Want, ...] = ()
    drop: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if len(self.add) + len(self.drop) > MOST_CHANGES:
            raise ValueError(f"{len(self.add) + len(self.drop)} changes in one message; at most {MOST_CHANGES}")


class Pull(msgspec.Struct, frozen=True, tag=True):
    """What is there for these keys after these executions? Asked over HTTP; at most about `most_bytes` come back."""

    broker: str
    channel: str
    after: tuple[tuple[str, int], ...]
    most_bytes: int = 32_000_000


# pipeline -> agent


class Known(msgspec.Struct, frozen=True, tag=True):
    """The answer to change `of`: all changes up to `number` of this session are known, and survive a crash.

    `begin`: for each key that was added, the last execution before; `committed`: of each of its channels, the last one.
    `url`: where results are pulled from.
    """

    session: int
    of: int
    number: int
    begin: tuple[tuple[str, int], ...] = ()
    committed: tuple[tuple[str, int], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    url: str = ""


class Committed(msgspec.Struct, frozen=True, tag=True):
    """An execution is committed, and has rows for these of the agent's keys; in so many `parts`.

    Of keys that were added after change `number` of this session nothing is said.
    """

    channel: str
    execution: int
    keys: tuple[str, ...]
    url: str
    part: int = 1
    parts: int = 1
    session: int = 0
    number: int = 0


class Pulled(msgspec.Struct, frozen=True, tag=True):
    """All that there is up to execution `until`: `results` by key, each in order.

    `cut`: keys of which something may be missing after the execution that was asked about, and up to which one.
    """

    until: int
    results: tuple[tuple[str, tuple[Result, ...]], ...]
    cut: tuple[tuple[str, int], ...] = ()


# between agent and coordinator


class Resident(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A client that follows something here: `keys` are numbers of the message's keys. `near`: see `Follow`."""

    client: str
    keys: tuple[int, ...]
    near: Near = ()


class HomedClient(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A client that uses homed topics here: `publishes` and `subscribes` are numbers of the message's topics.

    `home` is where it says that it is at home, which may be elsewhere: "" where nobody told it. `at` is its network
    coordinate, the height last; empty where it has not said.
    """

    client: str
    publishes: tuple[int, ...]
    subscribes: tuple[int, ...]
    home: str = ""
    at: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.at) > _MOST_DIMENSIONS + 1 or not all(map(math.isfinite, self.at)):
            raise ValueError(f"client {self.client!r} is at {self.at!r}, where nobody can be")


class AtHome(msgspec.Struct, frozen=True, tag=True):
    """agent -> coordinator: who follows what here. `keys` with the bytes a second of what is published for them.

    A `round` tells of everybody, in so many `parts`, which may each name some of a client's keys. With 0 parts it is
    what has changed since: clients that came, or said where they are, and those who have `left`. Clients of homed
    topics, `homed`, are told of in rounds only.
    """

    broker: str
    round: int
    parts: int = 1
    keys: tuple[tuple[str, float], ...] = ()
    residents: tuple[Resident, ...] = ()
    left: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    homed: tuple[HomedClient, ...] = ()

    def __post_init__(self) -> None:
        size = len(self.keys) + len(self.residents) + len(self.left) + sum(len(each.keys) for each in self.residents)
        size += len(self.topics) + sum(1 + len(each.publishes) + len(each.subscribes) for each in self.homed)
        if size > MOST_AT_HOME:
            raise ValueError(f"{size} keys, clients and subscriptions in one message; at most {MOST_AT_HOME}")
        if self.parts < 0:
            raise ValueError(f"a round in {self.parts} parts")
        for key, rate in self.keys:
            if not 0.0 <= rate < MOST_BYTES_PER_S:
                raise ValueError(f"broker {self.broker!r}: {rate} bytes a second are published for {key!r}")
        for each in self.residents:
            if each.keys and not 0 <= min(each.keys) <= max(each.keys) < len(self.keys):
                raise ValueError(f"client {each.client!r} follows keys that are not named here")
            _must_be_near(each.client, each.near)
        for user in self.homed:
            used = (*user.publishes, *user.subscribes)
            if used and not 0 <= min(used) <= max(used) < len(self.topics):
                raise ValueError(f"client {user.client!r} uses topics that are not named here")


class Rehome(msgspec.Struct, frozen=True, tag=True):
    """coordinator -> agent: these clients, as (client, broker), should have another home. Said again until they do."""

    moves: tuple[tuple[str, str], ...]
    addresses: Addresses = ()

    def __post_init__(self) -> None:
        if len(self.moves) > MOST_REHOMED:
            raise ValueError(f"{len(self.moves)} clients in one message; at most {MOST_REHOMED}")


def _must_be_near(client: str, near: Near) -> None:
    if len(near) > MOST_NEAR:
        raise ValueError(f"client {client!r}: {len(near)} brokers are near; at most {MOST_NEAR} are named")
    for broker, rtt_s in near:
        if not 0.0 <= rtt_s < math.inf:
            raise ValueError(f"client {client!r}: a round trip of {rtt_s} s to {broker!r}")


FromFollowers = Follow | Unfollow | Describe | Muster
ToFollower = Following | HomeAt | Refusal | Described | Notice | Mustered
ToPipeline = Wanted | Describe | Pull
FromPipeline = Known | Committed | Described | Pulled
Homing = AtHome | Rehome
