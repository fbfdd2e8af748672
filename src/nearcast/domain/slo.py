"""A latency promise of a topic: so many of a hundred messages arrive within a bound, from publish to receipt."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from nearcast.domain.errors import ConfigError

PERCENTILES = (50, 90, 95, 99)
"""What is measured of every topic, and so what can be promised."""

_TEXT = re.compile(r"p(\d+):(\d+(?:\.\d+)?)(ms|s)")


@dataclass(frozen=True, slots=True)
class Slo:
    percentile: int
    bound_ms: float

    def __post_init__(self) -> None:
        if self.percentile not in PERCENTILES:
            known = ", ".join(f"p{each}" for each in PERCENTILES)
            raise ConfigError(f"slo: p{self.percentile} is not measured; one of {known}")
        if not 0.0 < self.bound_ms < math.inf:
            raise ConfigError(f"slo: a bound of {self.bound_ms} ms; it must be more than 0 and finite")

    @classmethod
    def parse(cls, text: str) -> Slo:
        """From `p95:40ms` or `p99:1.5s`. Raises ConfigError."""
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise ConfigError(f"slo: {text!r} is no promise; expected one like p95:40ms")
        percentile, bound, unit = found.groups()
        return cls(int(percentile), float(bound) * (1e3 if unit == "s" else 1.0))

    def __str__(self) -> str:
        return f"p{self.percentile}:{self.bound_ms:g}ms"
