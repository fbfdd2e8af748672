"""The agents as their coordinator sees them: who is alive, and in which incarnation (rule 9)."""

import math

from nearcast.control.timing import Timing
from nearcast.domain.errors import MoveRefused
from nearcast.wire.control import AgentState, Alive
from nearcast.wire.dialect import OLDEST

_MARGIN = 1.2  # clocks drift: the agent's lease must be over before we count it as over


class Agents:
    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._heard_s: dict[str, float] = {}
        self._incarnation: dict[str, int] = {}
        self._reads: dict[str, int] = {}
        self._away: dict[str, None] = {}

    def forget(self, now: float) -> None:
        """A new leader knows of nobody for sure: each agent has a lease's time to be heard, and is caught up then."""
        self._incarnation.clear()
        self._away.clear()
        for broker in self._heard_s:
            self._heard_s[broker] = now

    def expect(self, broker: str, now: float) -> None:
        """The records name it: if it is never heard, it will be missed."""
        self._heard_s.setdefault(broker, now)

    def drop(self, broker: str) -> None:
        """It has left the fleet: it is not missed."""
        for each in (self._heard_s, self._incarnation, self._reads, self._away):
            each.pop(broker, None)

    def deaf(self, now: float) -> None:
        """We hear nobody ourselves: nobody is missed for it."""
        for broker in self._heard_s:
            if broker not in self._away:
                self._heard_s[broker] = now

    def heard(self, message: Alive, now: float) -> bool:
        """True when the agent must be caught up: it is new, or was given up."""
        broker = message.broker
        stale = self._incarnation.get(broker) != message.incarnation or broker in self._away
        self._heard_s[broker] = now
        self._incarnation[broker] = message.incarnation
        self._reads[broker] = message.reads
        self._away.pop(broker, None)
        return stale

    def speaks(self, broker: str, incarnation: int) -> bool:
        """Whether it is the agent that we know of: one before it did what the one that we know has forgotten."""
        return self._incarnation.get(broker, incarnation) == incarnation

    def lost(self, now: float) -> list[str]:
        """Agents whose lease has surely run out since this was last asked."""
        out = [
            broker
            for broker, heard_s in self._heard_s.items()
            if broker not in self._away and now >= heard_s + self._patience_s
        ]
        self._away.update(dict.fromkeys(out))
        return out

    def away(self, broker: str) -> bool:
        """Whether its loss has been told."""
        return broker in self._away

    def next_loss_s(self) -> float:
        alive = [heard_s for broker, heard_s in self._heard_s.items() if broker not in self._away]
        return min(alive, default=math.inf) + self._patience_s

    def known(self) -> list[str]:
        return sorted(self._heard_s)

    def present(self) -> list[str]:
        """Agents that have not been given up."""
        return [broker for broker in self.known() if broker not in self._away]

    def states(self, now: float) -> tuple[AgentState, ...]:
        return tuple(
            AgentState(broker, broker not in self._away, max(0.0, now - heard_s), self._reads.get(broker, OLDEST))
            for broker, heard_s in sorted(self._heard_s.items())
        )

    def must_answer(self, broker: str, now: float) -> None:
        """Raises MoveRefused for a broker whose agent is not there."""
        if broker not in self._heard_s or broker in self._away:
            raise MoveRefused(
                f"broker {broker!r} has no agent that answers; known are {', '.join(self.known()) or 'none'}"
            )
        if now >= self._heard_s[broker] + self._patience_s:
            raise MoveRefused(
                f"broker {broker!r}: its agent has not been heard for {now - self._heard_s[broker]:.0f} s"
            )

    @property
    def _patience_s(self) -> float:
        return _MARGIN * self._timing.lease_s
