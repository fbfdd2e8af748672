"""The pipeline's side of subscriptions: which agents want which key, each distinct key counted once.

A key is wanted as long as an agent has followers of it, and is held for a while after that: for a client that is
offline, for one whose agent or broker was killed, for agents that have not yet told a pipeline that has just started.
What is to be on disk before an agent is answered is in `unsaved`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from nearcast.control.timing import Timing
from nearcast.domain.channel import Subscription
from nearcast.wire.channels import MOST_READY, Committed, Known, Want, Wanted

PENDING = -1


class Demanded(msgspec.Struct, frozen=True):
    """A distinct subscription. `since`: the last execution that may not have it; later ones do, without a break.

    PENDING as long as the channel has not been told of it.
    """

    subscription: Subscription
    hold_s: float
    since: int = 0


class _Key(msgspec.Struct):
    demanded: Demanded
    agents: dict[str, None]
    until_s: float  # while no agent wants it


class _Agent(msgspec.Struct):
    session: int
    heard_s: float
    number: int = 0
    keys: dict[str, str] = msgspec.field(default_factory=dict)  # and their channels
    refused: dict[str, str] = msgspec.field(default_factory=dict)  # what it wants, and why that cannot be
    stale: dict[str, None] = msgspec.field(default_factory=dict)  # of its last session, and not yet of this one


class Demand:
    """`held`: what was known before a restart. `committed` gives the last execution of a channel, None where there is
    no such channel; `refuse` the reason for which there can be no such subscription, or "".
    """

    def __init__(
        self,
        held: Iterable[Demanded],
        now: float,
        *,
        timing: Timing,
        committed: Callable[[str], int | None],
        refuse: Callable[[Subscription], str],
    ) -> None:
        self.timing = timing
        self.unsaved: dict[str, Demanded | None] = {}  # None: to be removed
        self._committed = committed
        self._refuse = refuse
        self._keys: dict[str, _Key] = {}
        self._agents: dict[str, _Agent] = {}
        for each in held:
            until_s = now + max(each.hold_s, timing.forget_s)
            self._keys[each.subscription.key] = _Key(each, {}, until_s)

    @property
    def distinct(self) -> dict[str, Demanded]:
        """Every key, once."""
        return {key: each.demanded for key, each in self._keys.items()}

    def find(self, key: str) -> Demanded | None:
        return self._keys[key].demanded if key in self._keys else None

    def wanted_at(self, key: str) -> tuple[str, ...]:
        """The brokers whose agents have followers of it."""
        return tuple(self._keys[key].agents) if key in self._keys else ()

    def began(self, channel: str, first: int) -> tuple[Subscription, ...]:
        """There is a channel of this name whose executions come after `first`. What it has yet to be told of: it may be
        another one than before, or have been killed before it was told.
        """
        mine = [each for each in self._keys.values() if each.demanded.subscription.channel == channel]
        for each in mine:
            if PENDING < each.demanded.since < first:
                each.demanded = msgspec.structs.replace(each.demanded, since=PENDING)
                self.unsaved[each.demanded.subscription.key] = each.demanded
        return tuple(each.demanded.subscription for each in mine if each.demanded.since == PENDING)

    def told(self, keys: Iterable[str], settled: int) -> None:
        """The channel knows of these, from the execution after `settled` on, unless it did before."""
        for key in keys:
            there = self._keys.get(key)
            if there is not None and there.demanded.since == PENDING:
                there.demanded = self.unsaved[key] = msgspec.structs.replace(there.demanded, since=settled)

    def wanted(self, message: Wanted, now: float) -> None:
        """Apply a change; give the answer once `unsaved` has been saved, and channels have been told."""
        agent = self._agents.get(message.broker)
        if message.number == 1 and (agent is None or message.session > agent.session):
            stale = {} if agent is None else agent.stale | dict.fromkeys(agent.keys)
            agent = self._agents[message.broker] = _Agent(message.session, now, stale=stale)
        if agent is None or agent.session != message.session:
            return
        agent.heard_s = now
        if message.number == agent.number + 1:
            agent.number = message.number
            self._apply(message, agent, now)

    def answer(self, message: Wanted, url: str) -> Known:
        agent = self._agents.get(message.broker)
        if agent is not None and message.session < agent.session:
            return Known(agent.session, message.number, agent.number)
        if agent is None or agent.session != message.session:
            return Known(message.session, message.number, 0)
        last = {channel: self._committed(channel) for channel in dict.fromkeys(agent.keys.values())}
        gone = {channel for channel, execution in last.items() if execution is None}
        refused = dict(agent.refused)
        if gone:
            refused |= {key: f"channel {each} was dropped" for key, each in agent.keys.items() if each in gone}
        begin = [
            (each.subscription.key, max(last[each.subscription.channel] or 0, self._since(each.subscription.key)))
            for each in message.add
            if message.number == agent.number and each.subscription.key not in refused
        ]
        committed = tuple((channel, each) for channel, each in last.items() if each is not None)
        return Known(
            message.session, message.number, agent.number, tuple(begin), committed, tuple(refused.items()), url
        )

    def committed(self, channel: str, execution: int, keys: Iterable[str], url: str) -> list[tuple[str, Committed]]:
        """An execution has rows for these keys: what to tell the agent of which broker. One without rows is told too,
        so that each knows that it has missed none.
        """
        mine: dict[str, list[str]] = {
            broker: [] for broker, agent in self._agents.items() if channel in agent.keys.values()
        }
        for key in keys:
            for broker in self.wanted_at(key):
                if broker in mine:
                    mine[broker].append(key)
        out = []
        for broker, found in mine.items():
            agent = self._agents[broker]
            pieces = [tuple(found[at : at + MOST_READY]) for at in range(0, len(found), MOST_READY)] or [()]
            out += [
                (broker, Committed(channel, execution, piece, url, number, len(pieces), agent.session, agent.number))
                for number, piece in enumerate(pieces, 1)
            ]
        return out

    def wake_s(self) -> float:
        agents = [each.heard_s + self.timing.absent_s for each in self._agents.values()]
        keys = [each.until_s for each in self._keys.values() if not each.agents]
        return min([*agents, *keys], default=float("inf"))

    def tick(self, now: float) -> None:
        """Who was not heard for long has no followers; what nobody wants any more is removed."""
        for broker, agent in list(self._agents.items()):
            if now >= agent.heard_s + self.timing.absent_s:
                for key in (*agent.keys, *agent.stale):
                    self._drop(key, broker, None, now)
                del self._agents[broker]
        for key, each in list(self._keys.items()):
            if not each.agents and (now >= each.until_s or self._committed(each.demanded.subscription.channel) is None):
                del self._keys[key]
                self.unsaved[key] = None

    def saved(self, what: Mapping[str, Demanded | None]) -> None:
        for key, each in what.items():
            if self.unsaved.get(key, 0) == each:
                del self.unsaved[key]

    # Within

    def _since(self, key: str) -> int:
        return self._keys[key].demanded.since if key in self._keys else 0

    def _apply(self, message: Wanted, agent: _Agent, now: float) -> None:
        broker = message.broker
        for want in message.add:
            key = want.subscription.key
            agent.stale.pop(key, None)
            if why := self._refuse(want.subscription):
                agent.refused[key] = why
                continue
            self._add(want, broker)
            agent.keys[key] = want.subscription.channel
        for dropped, hold_s in message.drop:
            for each in (agent.keys, agent.stale, agent.refused):
                each.pop(dropped, None)
            self._drop(dropped, broker, hold_s, now)
        if message.complete:
            for left in agent.stale:
                self._drop(left, broker, None, now)
            agent.stale = {}

    def _add(self, want: Want, broker: str) -> None:
        subscription = want.subscription
        key, there = subscription.key, self._keys.get(subscription.key)
        if there is None:
            demanded = Demanded(subscription, want.hold_s, PENDING)
            self._keys[key] = _Key(demanded, {broker: None}, 0.0)
            self.unsaved[key] = demanded
            return
        there.agents[broker] = None
        if want.hold_s > there.demanded.hold_s:
            there.demanded = msgspec.structs.replace(there.demanded, hold_s=want.hold_s)
            self.unsaved[key] = there.demanded

    def _drop(self, key: str, broker: str, hold_s: float | None, now: float) -> None:
        """It is held for as long as the agent says, or else as anybody ever asked for, should nobody else want it."""
        there = self._keys.get(key)
        if there is not None and there.agents.pop(broker, 0) is None:
            held_s = there.demanded.hold_s if hold_s is None else hold_s
            there.until_s = now if held_s < 0 else max(there.until_s, now + held_s)
