"""The client's side of one subscription to a channel: what it takes, in which order, from which home.

Every result names the one before it that had rows for the same key. So a client knows, whatever it has missed and
wherever it has been meanwhile, whether a result is the next one, an old one, or one that must wait until its agent has
sent what is missing. Its position is the execution up to which it has everything.
"""

from __future__ import annotations

import math

import msgspec

from nearcast.control.instructions import Attach, Detach, Instruction, Say
from nearcast.control.timing import Timing
from nearcast.domain.channel import Subscription
from nearcast.wire.channels import Follow, Following, Notice, Refusal, Result, Unfollow, Wish

_MOST_WAITING = 256  # results that came before what is missing


class Take(Instruction, frozen=True):
    """Hand over: it is the next one."""

    result: Result


class Miss(Instruction, frozen=True):
    """What executions after `after` up to `until` had for this key is kept nowhere, or was never made."""

    after: int
    until: int


class Begun(Instruction, frozen=True):
    """Of what comes after this execution nothing is missed."""

    after: int


class Over(Instruction, frozen=True):
    """It was refused, or its channel is no more."""

    reason: str


class _Home(msgspec.Struct):
    """A broker where we are, or are about to be."""

    attached: bool = False  # the key's subject is subscribed to
    asked_s: float = -math.inf
    heard_s: float = -math.inf  # when its agent was last asked, that then answered
    follow_s: float = 0.0  # how often its agent wants to hear of us
    lost_s: float = -math.inf  # since when the link is down
    since_s: float = -math.inf  # when what is asked now was first asked: an answer to any repetition will do
    repeated: int = 0
    renews: bool = False  # what is asked now is asked for the lease's sake
    up: bool = True


class ChannelSubscriber:
    """`brokers`: the homes to try, the first one first; further ones when no agent answers. `after`: see `Wish`."""

    __slots__ = (
        "_begun",
        "_brokers",
        "_first",
        "_homes",
        "_lacks_s",
        "_next",
        "_started_s",
        "_tried_s",
        "_waiting",
        "client",
        "full",
        "home",
        "keep_s",
        "key",
        "over",
        "position",
        "subscription",
        "timing",
    )

    def __init__(
        self,
        subscription: Subscription,
        client: str,
        brokers: tuple[str, ...],
        *,
        timing: Timing,
        after: int | None = None,
        keep_s: float = 0.0,
    ) -> None:
        self.subscription = subscription
        self.key = subscription.key
        self.client = client
        self.timing = timing
        self.keep_s = keep_s
        self.position = after
        self.home = brokers[0]
        self.full = False  # the application is behind: results are left where they are
        self.over = False
        self._brokers = brokers
        self._next = 0  # of the homes to try
        self._tried_s = -math.inf  # since when the present home has been tried
        self._homes: dict[str, _Home] = {}
        self._waiting: dict[int, Notice] = {}
        self._lacks_s = -math.inf  # when it was last said that something is missing
        self._first = after or 0  # where it began; results may have been taken before it is told so
        self._begun = False
        self._started_s = 0.0  # answers to questions from before are to another with our name

    # Where it is

    def start(self, now: float) -> list[Instruction]:
        self._started_s = now
        return self._go(self.home, now)

    def rehome(self, broker: str, now: float) -> list[Instruction]:
        """The old home is left when the agent of the new one has answered."""
        if self.over or broker == self.home:
            return []
        return self._go(broker, now)

    def attached(self, broker: str, now: float) -> list[Instruction]:
        home = self._homes.get(broker)
        if home is None or self.over:
            return []
        home.attached = True
        return [self._follow(broker, now)]

    def lost(self, broker: str, now: float) -> None:
        home = self._homes.get(broker)
        if home is not None:
            home.up, home.lost_s = False, now

    def restored(self, broker: str, now: float) -> list[Instruction]:
        home = self._homes.get(broker)
        if home is None or self.over:
            return []
        home.up = True
        return [self._follow(broker, now)]

    def following(self, message: Following, broker: str, now: float) -> list[Instruction]:
        home = self._homes.get(broker)
        if home is None or self.over:
            return []
        if not home.attached:
            return []
        if message.asked_s >= home.heard_s:
            home.heard_s = message.asked_s
            home.follow_s = message.lease_s * self.timing.follow_s / self.timing.absent_s
        out: list[Instruction] = []
        if self.position is None:
            self.position = self._first = message.after
        elif message.said is not None and message.asked_s >= self._started_s:
            self.position = max(self.position, message.after)
        if broker == self.home:
            for other in [each for each in self._homes if each != broker]:
                out += self._leave(other, now, over=False)
            if not self._begun:
                self._begun = True
                out.append(Begun(self._first))
        return [*out, *self._settle()]

    def refused(self, message: Refusal, broker: str, now: float) -> list[Instruction]:
        if broker != self.home or self.over:
            return []
        return [*self.close(now, over=True), Over(message.reason)]

    def close(self, now: float, *, over: bool, everybody: bool = False) -> list[Instruction]:
        """`over`: for good; otherwise results go on being made for `keep_s`, for who comes back with our position.

        `everybody`: nor need they be made for others who are away.
        """
        if self.over:
            return []
        leave = [self._leave(broker, now, over=over, everybody=everybody) for broker in list(self._homes)]
        out = [each for leaving in leave for each in leaving]
        self.over = True
        return out

    # Results

    def notice(self, message: Notice, now: float) -> list[Instruction]:
        """One that is whole. What is to come first is asked for, once in a while, where we are."""
        if self.over or self.full or (self.position is not None and message.result.execution <= self.position):
            return []
        held = self._waiting.get(message.result.execution)
        if held is None or held.result.floor < message.result.floor:  # of two copies the one that knows more is gone
            self._waiting[message.result.execution] = message
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[max(self._waiting)]
        out = self._settle()
        if self._waiting and self.position is not None and now >= self._lacks_s + self.timing.retry_s:
            self._lacks_s = now
            out.append(self._follow(self.home, now))
        return out

    def room(self, now: float) -> list[Instruction]:
        """The application has taken what it had: what was left meanwhile is asked for."""
        if not self.full or self.over:
            return []
        self.full = False
        return [self._follow(self.home, now)]

    # Time

    def wake_s(self) -> float:
        if self.over:
            return math.inf
        due_s = min((self._due_s(each) for each in self._homes.values()), default=math.inf)
        return min(due_s, self._patient_until_s(self._homes[self.home])) if len(self._brokers) > 1 else due_s

    def tick(self, now: float) -> list[Instruction]:
        if self.over:
            return []
        out: list[Instruction] = []
        home = self._homes[self.home]
        if now >= self._patient_until_s(home) and len(self._brokers) > 1:
            candidates = [each for each in self._brokers if each != self.home]
            out += self._go(candidates[self._next % len(candidates)], now)
            self._next += 1
        for broker, each in self._homes.items():
            if now >= self._due_s(each):
                again = each.heard_s < each.since_s
                out.append(self._follow(broker, now, again=again, renews=each.renews if again else each.up))
        return out

    # Within

    def _due_s(self, home: _Home) -> float:
        """Who is not answered asks again, ever more seldom: an agent that is behind is not drowned in repetitions."""
        answered = home.heard_s >= home.since_s
        retry_s = min(self.timing.retry_s * 2**home.repeated, self.timing.follow_s)
        due_s = home.asked_s + (home.follow_s if answered else retry_s)
        if not home.up and home.asked_s < home.lost_s:
            return min(due_s, home.lost_s + self.timing.patience_s)
        return due_s

    def _patient_until_s(self, home: _Home) -> float:
        """When another home is tried: an answer is missing, or the link has been down for too long."""
        if not home.up:
            return max(home.lost_s, self._tried_s) + self.timing.patience_s
        longer_s = max(0.0, home.follow_s - self.timing.follow_s)
        return max(home.heard_s + longer_s, self._tried_s) + self.timing.lease_s

    def _go(self, broker: str, now: float) -> list[Instruction]:
        self.home, self._tried_s = broker, now
        if broker in self._homes:
            return [self._follow(broker, now)]
        self._homes[broker] = _Home(asked_s=now)
        return [Attach(broker)]

    def _leave(self, broker: str, now: float, *, over: bool, everybody: bool = False) -> list[Instruction]:
        del self._homes[broker]
        return [Say(broker, Unfollow(self.client, (self.key,), now, over, everybody)), Detach(broker)]

    def _follow(self, broker: str, now: float, *, again: bool = False, renews: bool = False) -> Say:
        """Said also where we are not attached yet: its answer then counts for nothing, but the agent begins to ask."""
        home = self._homes[broker]
        home.asked_s = now
        home.renews = renews and home.attached and not self._waiting
        home.repeated = home.repeated + 1 if again else 0
        if not again:
            home.since_s = now
        wish = Wish(self.subscription, self.position, self.keep_s, home.renews)
        return Say(broker, Follow(self.client, now, (wish,)))

    def _settle(self) -> list[Instruction]:
        """Whatever is next, as long as there is a next one."""
        out: list[Instruction] = []
        if self.position is None:
            return out
        # What one of them says is kept no more does not come, whichever of them waits for it.
        cut = max((each.result.floor for each in self._waiting.values()), default=0)
        for execution in sorted(self._waiting):
            message = self._waiting[execution]
            result = message.result
            if execution > self.position:
                if result.previous > self.position:
                    if result.previous > cut:
                        if message.mark:
                            continue  # nothing follows on a mark
                        break
                    out.append(Miss(self.position, result.previous))
                self.position = execution
                if not message.mark:
                    out.append(Take(result))
            del self._waiting[execution]
        return out
