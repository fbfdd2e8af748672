"""The agent's side of channels: who follows which key here, what has been published, and who lacks something.

An agent has one entry per key for all of its followers. It is told of executions (`Committed`), pulls what they have
for its keys, in one question for all of them, keeps it as long as there is room, and publishes each result once: the
broker copies it to all who are subscribed. Who lacks something is sent it alone.

Nothing here survives a crash, and nothing need: followers say who they are and how far they are, again and again. The
more there are, the longer are their leases, so that what they say comes at a rate that an agent can bear.
"""

from __future__ import annotations

import math

import msgspec

from nearcast.control.channel_pulls import ChannelPulls
from nearcast.control.follower_leases import MOST_RENEWALS_HZ, FollowerLeases, Leased
from nearcast.control.followers import Followers, TopicUsers
from nearcast.control.instructions import Instruction
from nearcast.control.result_cache import ResultCache
from nearcast.control.timing import Timing
from nearcast.control.wanted import Teller
from nearcast.domain.channel import Subscription
from nearcast.wire.channels import (
    AtHome,
    Committed,
    Describe,
    Described,
    Follow,
    Following,
    HomeAt,
    Known,
    Muster,
    Near,
    Notice,
    Pull,
    Pulled,
    Refusal,
    Rehome,
    Result,
    ToFollower,
    ToPipeline,
    Unfollow,
    Want,
    Wish,
    mustered,
)


class TellFollower(Instruction, frozen=True):
    """To one client, through our own broker."""

    client: str
    message: ToFollower


class Publish(Instruction, frozen=True):
    """To all who are subscribed to the key at our broker."""

    notice: Notice


class TellPipeline(Instruction, frozen=True):
    message: ToPipeline


class TellCoordinator(Instruction, frozen=True):
    message: AtHome


class Fetch(Instruction, frozen=True):
    """Ask there, then call `pulled` or `not_pulled`."""

    url: str
    pull: Pull


class _Follower(Leased, kw_only=True, gc=False):
    """There may be a million of them: what they share, and what few of them have, is in `_Key`."""

    asked_s: float
    after: int | None
    keep_s: float


class _Key(msgspec.Struct):
    key: str  # the one object: a million names of it would be as many copies
    subscription: Subscription
    followers: dict[str, _Follower] = msgspec.field(default_factory=dict)
    lacking: dict[str, int] = msgspec.field(default_factory=dict)  # who is to be sent what came after this, once pulled
    begin: int = 0  # the last execution before the pipeline knew of it here: who is new gets what comes after
    last: int | None = None  # every result up to this execution has been published; None until the pipeline knows of it
    held_s: float = -math.inf  # until when one that is gone may come back
    lately: int = 0  # what came after this execution has been published lately,
    lately_s: float = -math.inf  # the first of it then: it may be under way


class ChannelAgent:
    """`most_bytes`: of results that are kept for those who come late; the pipeline has them longer. `renewals_hz`: what
    comes of followers together, at most, however many they are. `users` are told to the coordinator with them.
    """

    def __init__(
        self,
        broker: str,
        session: int,
        timing: Timing,
        *,
        most_bytes: int = 64_000_000,
        renewals_hz: float = MOST_RENEWALS_HZ,
        users: TopicUsers = dict,
    ) -> None:
        self.broker = broker
        self.timing = timing
        self.teller = Teller(broker, session, timing)
        self.followers = Followers(broker, session, users)
        self.keys: dict[str, _Key] = {}
        self.channels: dict[str, ChannelPulls] = {}
        self.cache = ResultCache(most_bytes)
        self._leases = FollowerLeases(timing, renewals_hz)
        self._url = ""

    # From followers

    def follow(self, message: Follow, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        for wish in message.wishes:
            out += self._wished(message.client, wish, message.asked_s, message.near, now)
        return [*out, *self._work(now)]

    def unfollow(self, message: Unfollow, now: float) -> list[Instruction]:
        for key in message.keys:
            follower = self.keys[key].followers.get(message.client) if key in self.keys else None
            if follower is not None and follower.asked_s <= message.asked_s:
                if message.everybody:
                    self.keys[key].held_s = now - 1.0
                hold_s = 0.0 if message.over else self._hold_s(follower)
                self._remove(key, message.client, -1.0 if message.everybody else hold_s, now)
        return self._work(now)

    def describe(self, message: Describe) -> list[Instruction]:
        return [TellPipeline(msgspec.structs.replace(message, broker=self.broker))]

    def muster(self, message: Muster) -> list[Instruction]:
        """How many follow each key of a channel here."""
        keys = self.channels[message.channel].keys if message.channel in self.channels else ()
        counts = tuple((key, len(self.keys[key].followers)) for key in keys)
        return [TellFollower(message.client, part) for part in mustered(self.broker, message.channel, counts)]

    # From the coordinator

    @staticmethod
    def rehome(message: Rehome) -> list[Instruction]:
        """Clients are told to go; nobody hears it who is not here."""
        book = dict(message.addresses)
        addresses = {home: ((home, book[home]),) for _, home in message.moves if home in book}
        return [TellFollower(client, HomeAt(home, addresses.get(home, ()))) for client, home in message.moves]

    # To the broker

    def published(self, key: str, size_bytes: int) -> None:
        """So much was handed to the broker, once for all who have subscribed."""
        self.followers.published(key, size_bytes)

    # From the pipeline

    def described(self, message: Described) -> list[Instruction]:
        return [TellFollower(message.client, message)]

    def known(self, message: Known, now: float) -> list[Instruction]:
        """Keys that it now has, from which execution on; and what we may have failed to hear of."""
        if not self.teller.known(message):
            return self._work(now)
        self._url = message.url or self._url
        out: list[Instruction] = []
        for key, reason in message.refused:
            if key in self.keys:
                out += [TellFollower(client, Refusal(key, reason)) for client in list(self.keys[key].followers)]
                for client in list(self.keys[key].followers):
                    self._remove(key, client, 0.0, now)
        for key, begin in message.begin:
            out += self._begin(key, begin)
        for name, committed in message.committed:
            channel = self.channels.get(name)
            if channel is not None and committed > channel.heard:
                channel.hears(committed, channel.keys)
        return [*out, *self._work(now)]

    def committed(self, message: Committed, now: float) -> list[Instruction]:
        self._url = message.url or self._url
        channel = self.channels.get(message.channel)
        if channel is None or message.execution <= channel.heard:
            return []
        keys = channel.whole(message)
        if keys is None:
            return []
        # A pipeline that has just started may know an old change of ours, and not what we added after that.
        knows = message.session == self.teller.session and message.number >= self.teller.added
        in_turn = knows and message.execution == channel.heard + 1
        channel.hears(message.execution, keys if in_turn else channel.keys)
        return self._work(now)

    def pulled(self, pull: Pull, answer: Pulled, now: float) -> list[Instruction]:
        channel = self.channels.get(pull.channel)
        if channel is None or channel.pulling != pull:
            return []
        channel.answered()
        found, cut = dict(answer.results), dict(answer.cut)
        out: list[Instruction] = []
        for key, after in pull.after:
            entry = self.keys.get(key)
            if entry is not None and entry.last is not None:
                missing = found.get(key, ())
                out += self._publish(entry, missing, answer.until, now)
                out += self._send_missing(entry, after, missing, until=answer.until, cut=cut.get(key, 0))
                if answer.until < channel.heard:
                    channel.wants(key, answer.until)
                for lacks in entry.lacking.values():
                    channel.wants(key, lacks)
        if channel.need and not found:
            channel.retry_s = now + self.timing.retry_s  # it knows less than we were told: not at once again
        return [*out, *self._work(now)]

    def not_pulled(self, pull: Pull, now: float) -> list[Instruction]:
        channel = self.channels.get(pull.channel)
        if channel is None or channel.pulling != pull:
            return []
        channel.answered()
        channel.retry_s = now + self.timing.retry_s
        for key, after in pull.after:
            if key in channel.keys:
                channel.wants(key, after)
        self.teller.hurry()
        return self._work(now)

    # Time

    def wake_s(self) -> float:
        waiting = [each.retry_s for each in self.channels.values() if self._url and each.need and each.pulling is None]
        told_s = self.teller.wake_s() if self._spoken else math.inf
        return min([self._leases.wake_s(), *waiting, told_s, self.followers.wake_s()])

    def tick(self, now: float) -> list[Instruction]:
        for key, client in self._leases.ended(now, self._find):
            self._remove(key, client, self._hold_s(self.keys[key].followers[client]), now)
        told = [TellCoordinator(message) for message in self.followers.tick(now)]
        return [*told, *self._work(now)]

    # Within, followers

    @property
    def _spoken(self) -> bool:
        """Whether anybody follows anything, or the pipeline still has to be told that nobody does."""
        return bool(self.teller.wants) or self.teller.unsaid

    def _wished(self, client: str, wish: Wish, asked_s: float, near: Near, now: float) -> list[Instruction]:
        subscription = wish.subscription
        key = subscription.key
        entry = self.keys.get(key)
        if entry is None:
            entry = self.keys[key] = _Key(key, subscription)
        follower = entry.followers.get(client)
        renews = wish.renews and follower is not None
        if follower is None:
            follower = _Follower(asked_s=asked_s, after=wish.after, keep_s=wish.keep_s)
            entry.followers[client] = follower
            self._leases.begin(entry.key, client, follower, now)
        elif follower.asked_s > asked_s:
            return []
        else:
            follower.asked_s, follower.after, follower.keep_s = asked_s, wish.after, wish.keep_s
            entry.lacking.pop(client, None)
            self._leases.renew(follower, now)
        self.followers.follows(client, entry.key, near, now)
        held = self.teller.wants.get(key)
        if held is None or held.hold_s < self._hold_s(follower):
            self.teller.want(entry.key, Want(entry.subscription, self._hold_s(follower)))
        if entry.last is None:
            return []
        return self._answer(entry, client, under_way=renews and now < entry.lately_s + self.timing.transit_s)

    def _find(self, key: str, client: str) -> _Follower | None:
        return self.keys[key].followers.get(client) if key in self.keys else None

    def _answer(self, entry: _Key, client: str, *, under_way: bool = False) -> list[Instruction]:
        """From where on it gets everything, and at once what we have of that; not what may be `under_way` to it."""
        key, last, channel = entry.key, entry.last, self.channels[entry.subscription.channel]
        follower = entry.followers[client]
        assert last is not None
        after = max(last, entry.begin) if follower.after is None else follower.after
        at = max(after, channel.settled(key)) if after >= last else after
        following = Following(key, at, follower.after, follower.asked_s, self._leases.length_s)
        out: list[Instruction] = [TellFollower(client, following)]
        if after >= last or (under_way and after >= entry.lately):
            return out
        kept = self.cache.after(key, after)
        if kept is not None:
            return [*out, *(_to(client, key, each) for each in kept)]
        entry.lacking[client] = after
        channel.wants(key, after)
        return out

    def _remove(self, key: str, client: str, hold_s: float, now: float) -> None:
        entry = self.keys[key]
        del entry.followers[client]
        entry.lacking.pop(client, None)
        self._leases.end()
        self.followers.leaves(client, key, now)
        entry.held_s = max(entry.held_s, now + hold_s)
        if entry.followers:
            return
        self.teller.drop(key, entry.held_s - now)
        self.followers.dropped(key)
        del self.keys[key]
        self.cache.forget(key)
        channel = self.channels.get(entry.subscription.channel)
        if channel is not None:
            channel.keys.pop(key, None)
            channel.need.pop(key, None)
            if not channel.keys:
                del self.channels[entry.subscription.channel]

    def _hold_s(self, follower: _Follower) -> float:
        """At least until it has found another home."""
        return max(follower.keep_s, self.timing.forget_s)

    # Within, results

    def _begin(self, key: str, begin: int) -> list[Instruction]:
        """The pipeline has the key: results after `begin` are ours to publish, or more where followers are behind."""
        entry = self.keys.get(key)
        if entry is None or entry.last is not None:
            return []
        afters = [each.after for each in entry.followers.values() if each.after is not None]
        entry.begin, entry.last = begin, min([begin, *afters])
        channel = self.channels.setdefault(entry.subscription.channel, ChannelPulls(begin))
        channel.keys[key] = None
        out: list[Instruction] = []
        if entry.last < max(channel.heard, begin):
            channel.wants(key, entry.last)
        for client in entry.followers:
            out += self._answer(entry, client)
        return out

    def _publish(self, entry: _Key, found: tuple[Result, ...], until: int, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        assert entry.last is not None
        if now >= entry.lately_s + self.timing.transit_s and any(each.execution > entry.last for each in found):
            entry.lately, entry.lately_s = entry.last, now
        for result in found:
            if result.execution > entry.last:
                out.append(Publish(Notice(entry.key, result)))
                self.cache.keep(entry.key, result)
                entry.last = result.execution
        entry.last = max(entry.last, until)
        return out

    def _send_missing(
        self, entry: _Key, after: int, found: tuple[Result, ...], *, until: int, cut: int
    ) -> list[Instruction]:
        """To each that lacks something: what there is, and a mark behind it, up to which there is nothing more."""
        out: list[Instruction] = []
        for client, lacks in list(entry.lacking.items()):
            if lacks < after:
                continue
            wanted = [each for each in found if each.execution > lacks]
            out += [_to(client, entry.key, each) for each in wanted]
            end = wanted[-1].execution if wanted else lacks
            if until > end:
                out.append(TellFollower(client, Notice(entry.key, Result(until, max(end, cut), b"", cut), 0, 0)))
            if entry.last is None or until >= entry.last:
                del entry.lacking[client]
            else:
                entry.lacking[client] = max(until, end)
        return out

    def _work(self, now: float) -> list[Instruction]:
        """Whatever can be asked for now."""
        out: list[Instruction] = []
        if self._spoken:
            out += [TellPipeline(message) for message in self.teller.tick(now)]
        for name, channel in self.channels.items():
            if not channel.need or channel.pulling is not None or now < channel.retry_s or not self._url:
                continue
            out.append(Fetch(self._url, channel.pull(self.broker, name)))
        return out


def _to(client: str, key: str, result: Result) -> TellFollower:
    return TellFollower(client, Notice(key, result))
