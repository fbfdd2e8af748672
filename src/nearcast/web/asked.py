"""What the API takes: query parameters and bodies."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

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


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    brokers: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=64)]
    strategy: Strategy = Strategy.SINGLE
    eager: Annotated[bool, Meta(description="Tell clients at once, not with the first message that comes by.")] = True
    reason: Reason = ""


class Promise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    slo: Annotated[str, Meta(max_length=40, description="Like p95:40ms; empty for no promise.")]
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
