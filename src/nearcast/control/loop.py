"""How the leader's loop is set: which policy, how often, how much at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearcast.domain.errors import ConfigError
from nearcast.policies.registry import policy_named
from nearcast.policies.settings import Settings


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """`every_s` 0: plans are made and carried out only when an operator asks.

    `at_once`: topics that move at a time, as many as ePulsar had executors; `most_moves`: steps of one plan. `rest_s`,
    `moves_per_hour` and `hits` keep topics from going to and fro: see nearcast.control.restraint.
    """

    policy: str = "dynamoth"
    every_s: float = 0.0
    at_once: int = 16
    most_moves: int = 1000
    rest_s: float = 10.0
    moves_per_hour: int = 60
    hits: int = 1
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        policy_named(self.policy)
        if not 0 <= self.every_s < 3600 or self.at_once < 1:
            raise ConfigError(
                f"rebalance.every_s is {self.every_s}, at_once is {self.at_once}; expected 0 to 3600 s, and at least 1"
            )
        if not 0 <= self.rest_s < 3600:
            raise ConfigError(f"rebalance.rest_s is {self.rest_s}; expected 0 to 3600 s")
        for name in ("most_moves", "moves_per_hour", "hits"):
            if getattr(self, name) < 1:
                raise ConfigError(f"rebalance.{name} is {getattr(self, name)}; it must be at least 1")
