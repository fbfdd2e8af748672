"""The newest report of every broker, as the leader has it. A new leader has none until the agents report again."""

from dataclasses import replace

from nearcast.domain.load import BrokerReport
from nearcast.wire.control import Loaded, LoadOrder
from nearcast.wire.loads import Load

FRESH_S = 5.0
"""Agents report once a second: what is older is not what a broker carries now."""


class Reports:
    def __init__(self) -> None:
        self._newest: dict[str, tuple[Load, float]] = {}

    def heard(self, load: Load, now: float) -> None:
        self._newest[load.report.broker] = (load, now)

    def forget(self, broker: str) -> None:
        """Its agent is lost: whoever plans must not go by what it said."""
        self._newest.pop(broker, None)

    def fresh(self, now: float) -> tuple[BrokerReport, ...]:
        """What a policy may see, by name, dated by when it came here: agents' clocks are their own.

        Topics that a report left out for its size are in its bandwidth only.
        """
        newest = [(load.report, at_s) for _, (load, at_s) in sorted(self._newest.items())]
        return tuple(replace(report, at_s=at_s) for report, at_s in newest if now < at_s + FRESH_S)

    def answer(self, order: LoadOrder, now: float) -> Loaded:
        load, at_s = self._newest.get(order.broker, (None, now))
        return Loaded(order.number, load, max(0.0, now - at_s))
