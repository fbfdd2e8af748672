"""What the API takes: query parameters and bodies."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from nearcast.domain.processor import Language, WhenFull
from nearcast.domain.route import Strategy

Reason = Annotated[str, Meta(max_length=500, description="Why: shown in the decisions. Needed unless it is a dry run.")]
Name = Annotated[str, Meta(min_length=1, max_length=63)]

SortBy = Literal["risk", "topic", "measured", "worst", "load", "messages", "publishers", "subscribers"]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class DryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dry_run: Annotated[bool, Meta(description="Only tell what would happen.")] = True


class TopicsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    search: Annotated[str, Meta(max_length=200, description="Part of the name, in any case.")] = ""
    broker: Annotated[str, Meta(max_length=63, description="Only those on this broker.")] = ""
    promise: Literal["", "kept", "broken", "unknown", "none"] = ""
    sort: SortBy = "risk"
    order: Annotated[
        Literal["", "ascending", "descending"], Meta(description="By default the names ascend and figures descend.")
    ] = ""
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000, description="The first so many of them.")] = 50


class HappeningsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: Annotated[str, Meta(max_length=200)] = ""
    before_s: Annotated[float | None, Meta(description="Seconds since 1970: only what was before.")] = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class PlanQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class MapQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=0, le=2000, description="Topics: those most at risk.")] = 200


class TaskQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wait_s: Annotated[float, Meta(ge=0, le=30, description="Answer when it is over, or after so many seconds.")] = 0.0


class Delegated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cloud: Name
    homes: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=64)]


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    brokers: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=64)]
    strategy: Strategy = Strategy.SINGLE
    eager: Annotated[bool, Meta(description="Tell clients at once, not with the first message that comes by.")] = True
    delegation: Annotated[
        Delegated | None, Meta(description="With homed: who is at home at one of `homes` publishes at `cloud`.")
    ] = None
    reason: Reason = ""


class Promise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    slo: Annotated[str, Meta(max_length=40, description="Like p95:40ms; empty for no promise.")]
    reason: Reason = ""


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    replicas: Annotated[int, Meta(description="Servers of the broker's site that keep each message: 1, 3 or 5.")] = 3
    retain_s: Annotated[float, Meta(ge=1, le=1e10)] | None = None
    retain_bytes: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    retain_messages: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    reason: Reason = ""


class Process(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: Annotated[str, Meta(description="package.module:callable, or a SELECT; empty: process no more.")]
    language: Language = Language.PYTHON
    spool: Annotated[int, Meta(description="How many messages before each one it sees.")] = 0
    limit_ms: Annotated[float, Meta(description="How long processing one may take.")] = 1000.0
    queue: Annotated[int, Meta(description="How many may wait at a broker.")] = 1000
    when_full: WhenFull = WhenFull.DROP
    reason: Reason = ""


class MakePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    policy: Annotated[str, Meta(max_length=40, description="Instead of the configured one.")] = ""


class ApplyPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plan: Annotated[int, Meta(ge=1, le=2**53, description="The number that the plan was shown with.")]
    reason: Reason = ""


class Because(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Reason = ""


class AddBroker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    url: Annotated[str, Meta(max_length=200, description="Of a server that runs; empty to rent one.")] = ""
    site: Annotated[str, Meta(max_length=63)] = ""
    out_bytes_per_s: Annotated[float, Meta(gt=0, le=1e12)] | None = None
    reason: Reason = ""


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cancel: Annotated[bool, Meta(description="Keep it after all.")] = False
    reason: Reason = ""
