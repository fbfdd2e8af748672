"""Channels and what people ask of them: typed parameters, subscriptions and their keys, notifications."""

from __future__ import annotations

import enum
import hashlib
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

import msgspec

from nearcast.domain.errors import ChannelError

Value = str | int | float | bool
"""Of a parameter, as JSON has it: dates and times are text."""

SubscriptionKey = NewType("SubscriptionKey", str)
"""The same for everybody who asks the same channel the same thing, in every process. It fits into a subject."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?Z")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DIGEST_BYTES = 16
_LARGEST = sys.float_info.max


class ParameterType(enum.StrEnum):
    """By the names of Spark SQL."""

    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    INT = "INT"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"


_EXPECTED = {
    ParameterType.DATE: "a DATE like 2026-11-16",
    ParameterType.TIMESTAMP: "a TIMESTAMP in UTC like 2026-11-16T13:00:00Z",
}
_BITS = {ParameterType.INT: 32, ParameterType.BIGINT: 64}


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: ParameterType

    @classmethod
    def parse(cls, text: str) -> Parameter:
        """From `kind STRING`. Raises ChannelError."""
        name, _, kind = text.strip().partition(" ")
        try:
            found = cls(name, ParameterType(kind.strip().upper()))
        except ValueError:
            known = ", ".join(ParameterType)
            raise ChannelError(
                f"parameter {text!r}: expected a name and a type, like 'kind STRING'; types: {known}"
            ) from None
        if not _NAME.fullmatch(name):
            raise ChannelError(f"parameter {name!r}: expected a letter, then letters, digits and underscores")
        return found

    def must_take(self, value: object) -> Value:
        """The value as it is compared and kept. Raises ChannelError for one of another type."""
        found = _canonical(self.type, value)
        if found is None:
            shown = "null" if value is None else repr(value)
            raise ChannelError(f"parameter {self.name!r} must be {_EXPECTED.get(self.type, self.type)}, got {shown}")
        return found


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """What was asked for when the channel was created. `period_s` None: it runs as data arrives.

    `push`: who subscribes is sent the rows; otherwise only told that there are some.
    """

    name: str
    query: str
    parameters: tuple[Parameter, ...] = ()
    period_s: float | None = None
    push: bool = True

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ChannelError(
                f"channel {self.name!r}: expected a letter, then letters, digits and underscores, 64 at most"
            )
        names = [each.name.lower() for each in self.parameters]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ChannelError(f"channel {self.name}: parameter {twice!r} is declared twice")
        if self.period_s is not None and not 0.0 < self.period_s < math.inf:
            raise ChannelError(f"channel {self.name}: a period of {self.period_s} s; it must be more than 0 and finite")

    def bind(self, given: Mapping[str, object]) -> Subscription:
        """Somebody's values for all parameters. Raises ChannelError that names the channel and the parameter."""
        known = {each.name: each for each in self.parameters}
        for name in given:
            if name not in known:
                there = ", ".join(known) or "none"
                raise ChannelError(f"channel {self.name}: no parameter {name!r}; it has {there}")
        missing = [name for name in known if name not in given]
        if missing:
            raise ChannelError(f"channel {self.name}: no value for parameter {missing[0]!r} ({known[missing[0]].type})")
        try:
            values = tuple((each.name, each.must_take(given[each.name])) for each in self.parameters)
        except ChannelError as error:
            raise ChannelError(f"channel {self.name}: {error}") from None
        return Subscription(self.name, values)


@dataclass(frozen=True, slots=True)
class Channel:
    """One that was tried out and is in the catalog. `id` tells it from an earlier one of the same name.

    `columns`: of its result. `bound`: how its query is compiled. `warnings`: what its creator was told.
    """

    id: str
    spec: ChannelSpec
    datasets: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    at_s: float = 0.0

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def first(self) -> int:
        """The number before that of its first execution.

        Milliseconds since 1970: above every number of an earlier channel of this name, so that who goes on with a
        position of that one takes nothing of this for old.
        """
        return int(self.at_s * 1000)

    @property
    def work(self) -> str:
        """What the pipeline calls the running of it."""
        return f"channel {self.name} {self.id}"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A channel and values for its parameters, as `ChannelSpec.bind` has checked them."""

    channel: str
    values: tuple[tuple[str, Value], ...] = ()

    @property
    def key(self) -> SubscriptionKey:
        """Independent of the order in which parameters are declared."""
        text = msgspec.json.encode([self.channel, sorted(self.values)])
        return SubscriptionKey(hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest())


@dataclass(frozen=True, slots=True)
class Notification:
    """What one execution has for one subscription. `previous`: the execution before it that had rows for this key;
    `at_s`: the execution's time, in seconds since 1970.

    A client that has `previous` takes it, one that has a later one drops it, any other asks for what is in between.
    """

    key: SubscriptionKey
    execution: int
    previous: int | None
    rows: tuple[dict[str, object], ...] = ()
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Missed:
    """What executions after `after` up to `until` had for one subscription, if anything, will not come.

    They are kept no more; or nobody had the subscription, and they were not made for it.
    """

    key: SubscriptionKey
    after: int
    until: int


def _canonical(kind: ParameterType, value: object) -> Value | None:
    match kind, value:
        case ParameterType.STRING, str():
            return value
        case ParameterType.BOOLEAN, bool():
            return value
        case _, bool():
            return None
        case ((ParameterType.INT | ParameterType.BIGINT), int()):
            bits = _BITS[kind]
            return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None
        case ParameterType.DOUBLE, int() | float():
            if not -_LARGEST <= value <= _LARGEST:
                return None
            return float(value) + 0.0  # -0.0 and 0.0 are one question
        case ParameterType.DATE, str():
            return value if _is_date(value) else None
        case ParameterType.TIMESTAMP, str():
            return _time(value)
        case _:
            return None


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1]):
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return leap or (month, day) != (2, 29)


def _time(text: str) -> str | None:
    found = _TIME.fullmatch(text)
    if found is None or not _is_date(found[1]):
        return None
    fraction = (found[5] or "").rstrip("0")
    return f"{found[1]}T{found[2]}:{found[3]}:{found[4]}{'.' if fraction else ''}{fraction}Z"
