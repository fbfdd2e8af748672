"""Not too much at once, and nothing to and fro: what the loop holds back of what a policy wants.

A topic that has moved rests for `rest_s`, and longer while its clients are still at several brokers: none of those
knows them all. It moves at most `per_hour` times in any hour. A broken promise counts when it was seen in `hits`
reports in a row. A broker that was relieved rests until that can show: clients count a topic elsewhere at once, and
its old server is busy for seconds yet with what has come before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from nearcast.domain.plan import Plan

_HOUR_S = 3600.0
_FOLLOWED_S = 10.0  # after a move: who is not at the new broker by then will not soon be
_SHOWN_S = (
    15.0  # after a relief: a server was busy for up to 9 s with what had piled up, and 5 s later that is reported
)


class Restraint:
    __slots__ = ("_hits", "_moved_s", "_need", "_per_hour", "_relieved_s", "_rest_s")

    def __init__(self, rest_s: float, per_hour: int, hits: int) -> None:
        self._rest_s = rest_s
        self._per_hour = per_hour
        self._need = hits
        self._moved_s: dict[str, deque[float]] = {}
        self._hits: dict[str, int] = {}
        self._relieved_s: dict[str, float] = {}

    def moved(self, topic: str, now_s: float) -> None:
        self._moved_s.setdefault(topic, deque(maxlen=self._per_hour)).append(now_s)

    def seen(self, topic: str, broken: bool) -> None:
        """One report of a topic that has a promise."""
        if broken:
            self._hits[topic] = self._hits.get(topic, 0) + 1
        else:
            self._hits.pop(topic, None)

    def lately(self, now_s: float) -> list[str]:
        """Topics whose clients may still be on their way."""
        return [topic for topic, at_s in self._moved_s.items() if now_s < at_s[-1] + _FOLLOWED_S]

    def held(self, now_s: float, apart: Iterable[str] = ()) -> set[str]:
        """Topics that are left where they are for now. `apart`: those of `lately` with clients at several brokers."""
        for topic in [topic for topic, at_s in self._moved_s.items() if now_s >= at_s[-1] + _HOUR_S]:
            del self._moved_s[topic]
        resting = {topic for topic, at_s in self._moved_s.items() if now_s < self._free_s(at_s)}
        return resting.union(apart) | {topic for topic, hits in self._hits.items() if hits < self._need}

    def relieved(self, brokers: Iterable[str], now_s: float) -> None:
        self._relieved_s |= dict.fromkeys(brokers, now_s)

    def resting(self, now_s: float) -> set[str]:
        """Brokers whose use of processors and memory is not yet what it is going to be."""
        self._relieved_s = {name: at_s for name, at_s in self._relieved_s.items() if now_s < at_s + _SHOWN_S}
        return set(self._relieved_s)

    def forget(self) -> None:
        self._moved_s.clear()
        self._hits.clear()
        self._relieved_s.clear()

    def _free_s(self, at_s: deque[float]) -> float:
        spent = len(at_s) == self._per_hour
        return max(at_s[-1] + self._rest_s, at_s[0] + _HOUR_S if spent else 0.0)


def within_budget(plan: Plan, most: int) -> Plan:
    """The first steps of a plan that has too many; servers go, and the ring changes, only with the last of them.

    Homes are not cut: a subscriber that moves is one connection, and half of a shuffle may be worse than none.
    """
    left = len(plan.steps) - most
    if left <= 0:
        return plan
    why = f"{left} more steps wait for the next plan: at most {most} in one"
    return replace(plan, steps=plan.steps[:most], ring=None, release=(), reasons=(*plan.reasons, why))
