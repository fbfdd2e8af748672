"""Clients on their way to another home: some at a time, told again until they are there, and none to and fro.

    waiting -> moving -> there
    moving -> given up            (it is still elsewhere after `GIVE_UP_S`)

Where everybody is comes from outside, as agents say it: a client is there when it is at home nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from nearcast.domain.errors import ConfigError
from nearcast.policies.placements import placement_named
from nearcast.policies.registry import HOME_POLICIES

AGAIN_S = 2.0
GIVE_UP_S = 30.0


@dataclass(frozen=True, slots=True)
class HomesSettings:
    """`placement` empty: newcomers stay where they came. `every_s` 0: homes change only when an operator asks, or a
    broker is drained.

    `at_once`: subscribers that are on their way at a time. `rest_s`: for so long after it was moved none moves again.
    When subscribers move, and by how much, is set in `Balancing`.
    """

    placement: str = ""
    policy: str = "bad-ldm"
    every_s: float = 0.0
    at_once: int = 200
    rest_s: float = 30.0

    def __post_init__(self) -> None:
        if self.placement:
            placement_named(self.placement)
        if self.policy not in HOME_POLICIES:
            raise ConfigError(f"homes.policy is {self.policy!r}; one of {', '.join(HOME_POLICIES)}")
        if not 0 <= self.every_s < 3600 or not 0 <= self.rest_s < 3600:
            raise ConfigError(
                f"homes.every_s is {self.every_s}, rest_s is {self.rest_s}; expected 0 to 3600 s for both"
            )
        if not 1 <= self.at_once <= 2000:
            raise ConfigError(f"homes.at_once is {self.at_once}; expected 1 to 2000")


Where = Callable[[str], tuple[Collection[str], Collection[str]]]
"""The brokers where a client is at home, and those whose agents can tell it something."""


@dataclass(slots=True)
class _Way:
    home: str
    begun_s: float
    told_s: float


class Rehoming:
    __slots__ = ("_at_once", "_moved_s", "_moving", "_rest_s", "_waiting", "given_up")

    def __init__(self, at_once: int, rest_s: float) -> None:
        self.given_up = 0
        self._at_once = at_once
        self._rest_s = rest_s
        self._waiting: dict[str, str] = {}
        self._moving: dict[str, _Way] = {}
        self._moved_s: dict[str, float] = {}

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def moving(self) -> int:
        return len(self._moving)

    def is_wanted(self, client: str) -> bool:
        """It waits, or is on its way."""
        return client in self._waiting or client in self._moving

    def want(self, moves: Iterable[tuple[str, str]], now: float) -> int:
        """Each subscriber should be at that broker. How many of them are taken on: others are on their way, or rest."""
        taken = 0
        for client, home in moves:
            rests = now < self._moved_s.get(client, -self._rest_s) + self._rest_s
            if client not in self._moving and not rests:
                self._waiting[client] = home
                taken += 1
        return taken

    def stop(self) -> None:
        """No more begin."""
        self._waiting.clear()

    def tick(self, now: float, where: Where) -> dict[str, list[tuple[str, str]]]:
        """What to tell the agents of which brokers now."""
        out: dict[str, list[tuple[str, str]]] = {}
        for client, way in list(self._moving.items()):
            elsewhere, through = _elsewhere(where(client), way.home)
            if not elsewhere or now >= way.begun_s + GIVE_UP_S:
                self.given_up += elsewhere
                del self._moving[client]
            elif now >= way.told_s + AGAIN_S:
                way.told_s = now
                _add(out, client, way.home, through)
        while self._waiting and len(self._moving) < self._at_once:
            client = next(iter(self._waiting))
            home = self._waiting.pop(client)
            elsewhere, through = _elsewhere(where(client), home)
            if elsewhere:
                self._moving[client] = _Way(home, now, now)
                self._moved_s.pop(client, None)
                self._moved_s[client] = now
                _add(out, client, home, through)
        self._forget(now)
        return out

    def _forget(self, now: float) -> None:
        while self._moved_s:  # in the order of time: who moves again is put last
            client, moved_s = next(iter(self._moved_s.items()))
            if now < moved_s + self._rest_s:
                break
            del self._moved_s[client]


def _elsewhere(where: tuple[Collection[str], Collection[str]], home: str) -> tuple[bool, list[str]]:
    """Whether it is at home anywhere else, and through whose agents it is told: not that one's, if there are others."""
    at, through = where
    others = [broker for broker in through if broker != home]
    return any(broker != home for broker in at), others or list(through)


def _add(out: dict[str, list[tuple[str, str]]], client: str, home: str, through: list[str]) -> None:
    for broker in through:
        out.setdefault(broker, []).append((client, home))
