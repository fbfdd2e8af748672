"""What the API answers. Its document is made of these; see `openapi`."""

from __future__ import annotations

from typing import Literal

import msgspec

from nearcast.domain.broker import Presence
from nearcast.domain.decision import Decision
from nearcast.domain.route import Strategy
from nearcast.domain.task import Task
from nearcast.wire.homes import HomeLoad
from nearcast.wire.rebalancing import PlannedHome, PlannedStep, StepCounts

Kept = Literal["kept", "broken", "unknown", "none"]
"""Of a promise: unknown while nothing is measured, none where nothing is promised."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """`field`: what was wrong with the request, if that can be said, and what was `expected` there."""

    error: str
    field: str = ""
    expected: str = ""


class Health(msgspec.Struct, frozen=True):
    ok: bool
    detail: str = ""


class Promised(msgspec.Struct, frozen=True):
    """How many topics have a promise, and how those stand."""

    kept: int
    broken: int
    unknown: int


class Status(msgspec.Struct, frozen=True):
    """`trouble`: why what is told here is `age_s` old. `balancedness`: mean load ratio over the highest, None unless
    capacities are known and anything is sent.
    """

    served_by: str
    leader: str
    term: int
    age_s: float
    trouble: str
    topics: int
    moving: int
    promises: Promised
    brokers: int
    agents_lost: tuple[str, ...]
    publishers: int
    subscribers: int
    publications_hz: float
    deliveries_hz: float
    balancedness: float | None
    ring_version: int
    ring: tuple[str, ...]
    policy: str
    automatic: bool


class Handed(msgspec.Struct, frozen=True):
    """What moves cost the agent of a broker since it started; see `domain.load.Handover`."""

    forwarded: int
    forwarded_bytes: int
    notices: int
    emptied_s: float | None


class Broker(msgspec.Struct, frozen=True):
    """What is None is not known, or not configured. `left`: topics that still use one that drains, `leaving` some of
    them.
    """

    name: str
    state: Presence
    site: str
    url: str
    rented: bool
    in_ring: bool
    agent: Literal["present", "lost"]
    silent_s: float | None
    left: int
    leaving: tuple[str, ...]
    trouble: str
    topics: int
    publishers: int
    subscribers: int
    publications_hz: float
    deliveries_hz: float
    out_bytes_per_s: float | None
    capacity_bytes_per_s: float | None
    load_ratio: float | None
    cores: float | None
    most_cores: float | None
    memory_bytes: float | None
    most_memory_bytes: float | None
    out_messages_per_s: float | None
    most_out_messages_per_s: float | None
    handed_over: Handed | None
    residents: int


class Brokers(msgspec.Struct, frozen=True):
    brokers: tuple[Broker, ...]


class Topic(msgspec.Struct, frozen=True):
    """`worst_ms`: the worst case as clients are placed; `measured_ms`: the promised percentile (p95 without a promise)
    on `samples` messages. `risk`: the higher of both over the bound.
    """

    topic: str
    strategy: Strategy
    brokers: tuple[str, ...]
    epoch: int
    by_ring: bool
    moving: bool
    slo: str
    bound_ms: float | None
    promise: Kept
    measured_ms: float | None
    samples: int
    uncertainty_ms: float
    worst_ms: float | None
    risk: float | None
    publications_hz: float
    deliveries_hz: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    publishers: int
    subscribers: int


class Topics(msgspec.Struct, frozen=True):
    """`total` of them were found, of `known` in all."""

    total: int
    known: int
    offset: int
    topics: tuple[Topic, ...]


class LatencyHistory(msgspec.Struct, frozen=True):
    """Since this coordinator runs, at most some fifteen minutes: seconds since 1970, and what was so then."""

    at_s: tuple[float, ...]
    measured_ms: tuple[float | None, ...]
    worst_ms: tuple[float | None, ...]


class TopicDetail(msgspec.Struct, frozen=True):
    """`topic` None: nobody uses it now, and no route names it; `at`: where the ring has it."""

    name: str
    at: tuple[str, ...]
    topic: Topic | None
    history: LatencyHistory
    decisions: tuple[Decision, ...]


class Happening(msgspec.Struct, frozen=True):
    """One of both: a decision that moved a topic, or what an operator ordered."""

    at_s: float
    decision: Decision | None = None
    task: Task | None = None


class Happenings(msgspec.Struct, frozen=True):
    """The newest first."""

    happenings: tuple[Happening, ...]


class Tasks(msgspec.Struct, frozen=True):
    """The newest first."""

    tasks: tuple[Task, ...]


class RouteTold(msgspec.Struct, frozen=True):
    topic: str
    epoch: int
    strategy: Strategy
    brokers: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True):
    """The plan that is in force: a route where one was given, the ring for all other topics."""

    ring_version: int
    ring: tuple[str, ...]
    total: int
    routes: tuple[RouteTold, ...]


class Processor(msgspec.Struct, frozen=True):
    """The processing of one topic at one broker, since its agent started; see `domain.load.Processed`.

    `failed` is the sum of `raised`, `hung` and `died`: those messages are on the topic's dead-letter topic.
    """

    topic: str
    broker: str
    interval_ms: float | None
    queue: int
    processed: int
    failed: int
    raised: int
    hung: int
    died: int
    dropped: int
    errors: tuple[str, ...]


class Processors(msgspec.Struct, frozen=True):
    """Those with the longest queues first, then those with the most failures."""

    processors: tuple[Processor, ...]


class Rebalance(msgspec.Struct, frozen=True):
    """See `wire.rebalancing`: `plan` 0 where there is none; of `steps` and `homes` the first are told, `counts` and
    `homes_count` are of all.
    """

    plan: int
    policy: str
    state: str
    counts: StepCounts
    steps: tuple[PlannedStep, ...]
    rent: int
    release: tuple[str, ...]
    reasons: tuple[str, ...]
    objections: tuple[str, ...]
    load_ratios: tuple[tuple[str, float], ...]
    automatic: bool
    homes: tuple[PlannedHome, ...]
    homes_count: int
    homes_left: int


class Point(msgspec.Struct, frozen=True):
    """In milliseconds one way, in a plane whose distances are nearest to those of network coordinates, heights and all.

    `height_ms`: of the coordinate itself.
    """

    x_ms: float
    y_ms: float
    height_ms: float


class MapBroker(msgspec.Struct, frozen=True):
    name: str
    site: str
    state: Presence
    at: Point | None


class MapTopic(msgspec.Struct, frozen=True):
    """`publishers` and `subscribers`: the middle of each, None where nobody said where they are."""

    topic: str
    promise: Kept
    moving: bool
    brokers: tuple[str, ...]
    publishers: Point | None
    subscribers: Point | None
    publisher_count: int
    subscriber_count: int


class Map(msgspec.Struct, frozen=True):
    """Those topics that are most at risk; `left_out` others are known."""

    brokers: tuple[MapBroker, ...]
    topics: tuple[MapTopic, ...]
    left_out: int


class ClientsAt(msgspec.Struct, frozen=True):
    broker: str
    publishers: int
    subscribers: int


class Clients(msgspec.Struct, frozen=True):
    """Who publishes on several topics counts in each. Never by name."""

    publishers: int
    subscribers: int
    brokers: tuple[ClientsAt, ...]


class Homes(msgspec.Struct, frozen=True):
    """Subscribers of channels: see `wire.homes.HomesTold`."""

    subscribers: int
    keys: int
    cov: float
    moving: int
    waiting: int
    brokers: tuple[HomeLoad, ...]
    policy: str
    reasons: tuple[str, ...]


class ChannelTold(msgspec.Struct, frozen=True):
    """Of the last execution; `late_s`: by how much it was behind its period. `failure`: why the newest one failed."""

    name: str
    period_s: float | None
    push: bool
    executions: int
    rows: int
    keys: int
    took_s: float | None
    late_s: float | None
    failures: int
    failure: str


class Channels(msgspec.Struct, frozen=True):
    channels: tuple[ChannelTold, ...]


class Foresight(msgspec.Struct, frozen=True):
    """What would happen, of a dry run: the first of `steps_count` steps, and what else is to be known."""

    steps: tuple[PlannedStep, ...]
    steps_count: int
    notes: tuple[str, ...]
    dry_run: Literal[True] = True


class Accepted(msgspec.Struct, frozen=True):
    """It is ordered: `GET tasks/{task}` tells what becomes of it."""

    task: str
    dry_run: Literal[False] = False
