"""The subscriptions to channels that one client has: what each of them shares with the others."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress

from nearcast.brokers.pool import LinkPool
from nearcast.client.channel_subscription import ChannelSubscription, OnMissed
from nearcast.control.channel_subscriber import ChannelSubscriber
from nearcast.control.timing import Timing
from nearcast.domain.channel import ChannelSpec, Value
from nearcast.domain.errors import ChannelError, ConfigError, LinkClosed, LinkDown
from nearcast.transport.clock import Clock
from nearcast.wire.channels import Describe, Described, Following, Muster, Mustered, Near, Notice, Refusal
from nearcast.wire.control import AGENT_SUBJECT, seal
from nearcast.wire.dialect import Dialect
from nearcast.wire.rejects import Rejects


class Channels:
    """`brokers` gives those that there are now, `near` those that were measured to be near."""

    def __init__(
        self,
        client: str,
        pool: LinkPool,
        clock: Clock,
        *,
        brokers: Callable[[], tuple[str, ...]],
        timing: Timing,
        dialect: Dialect,
        rejects: Rejects,
        near: Callable[[], Near] = tuple,
    ) -> None:
        self._client = client
        self._pool = pool
        self._clock = clock
        self._brokers = brokers
        self._timing = timing
        self._dialect = dialect
        self._rejects = rejects
        self._near = near
        self._subscriptions: dict[str, ChannelSubscription] = {}  # by key
        self._described: dict[str, asyncio.Future[Described]] = {}
        self._mustered: dict[tuple[str, str], _Parts] = {}  # by broker and channel
        self._home = ""
        self._closed = False

    async def subscribe(
        self,
        channel: str,
        parameters: Mapping[str, Value],
        *,
        after: int | None,
        keep_s: float,
        on_missed: OnMissed | None,
        buffer: int,
        automatic: bool,
        timeout_s: float,
    ) -> ChannelSubscription:
        """As `Client.subscribe_channel` promises."""
        if buffer < 1:
            raise ConfigError(f"channel {channel!r}: buffer is {buffer}; it must hold at least one notification")
        until_s = self._clock.now() + timeout_s
        bound = (await self.describe(channel, timeout_s)).bind(parameters)
        if bound.key in self._subscriptions:
            raise ConfigError(f"client {self._client!r} has this subscription to {channel} already; share that one")
        machine = ChannelSubscriber(bound, self._client, self._homes(), timing=self._timing, after=after, keep_s=keep_s)
        subscription = self._subscriptions[bound.key] = ChannelSubscription(
            machine,
            self._pool,
            self._clock,
            dialect=self._dialect,
            rejects=self._rejects,
            on_missed=on_missed,
            buffer=buffer,
            automatic=automatic,
            closed=self._forget,
            near=self._near,
        )
        try:
            async with asyncio.timeout(until_s - self._clock.now()):
                await subscription.start()
        except BaseException as error:
            subscription.close()
            if isinstance(error, TimeoutError):
                raise LinkDown(_unanswered(channel, timeout_s)) from None
            raise
        return subscription

    async def describe(self, channel: str, timeout_s: float) -> ChannelSpec:
        """As `Client.describe_channel` promises."""
        found = self._described.get(channel)
        if found is None:
            found = self._described[channel] = asyncio.get_running_loop().create_future()
        homes, turn, until_s = self._homes(), 0, self._clock.now() + timeout_s
        while not found.done():
            if self._closed:
                raise LinkClosed(f"client {self._client!r} is closed; start another one")
            if self._clock.now() >= until_s:
                raise LinkDown(_unanswered(channel, timeout_s))
            message = seal(Describe(self._client, channel), self._dialect)
            self._pool.publish(homes[turn % len(homes)], AGENT_SUBJECT, message)
            await asyncio.wait([found], timeout=self._timing.retry_s)
            turn += 1
        self._described.pop(channel, None)
        if found.result().refused:
            raise ChannelError(found.result().refused)
        return ChannelSpec(channel, "", found.result().parameters)

    async def followers(self, channel: str, broker: str, timeout_s: float) -> dict[str, int]:
        """As `Client.count_followers` promises."""
        parts = self._mustered[broker, channel] = _Parts()
        until_s = self._clock.now() + timeout_s
        try:
            while not parts.whole.is_set():
                if self._clock.now() >= until_s:
                    raise LinkDown(f"broker {broker!r}: its agent did not answer within {timeout_s:g} s")
                parts.found.clear()
                self._pool.publish(broker, AGENT_SUBJECT, seal(Muster(self._client, channel), self._dialect))
                with suppress(TimeoutError):
                    await asyncio.wait_for(parts.whole.wait(), self._timing.retry_s)
        finally:
            self._mustered.pop((broker, channel), None)
        return {key: count for each in parts.found.values() for key, count in each.followers}

    def go_home(self, broker: str) -> None:
        self._home = broker
        for subscription in list(self._subscriptions.values()):
            subscription.move(broker)

    def answered(self, message: Following | Refusal | Notice | Described | Mustered, broker: str) -> None:
        if isinstance(message, Mustered):
            parts = self._mustered.get((broker, message.channel))
            if parts is not None:
                parts.take(message)
            return
        if isinstance(message, Described):
            asked = self._described.get(message.channel)
            if asked is not None and not asked.done():
                asked.set_result(message)
            return
        subscription = self._subscriptions.get(message.key)
        if subscription is not None:
            subscription.answered(message, broker)

    def link_changed(self, broker: str, up: bool) -> None:
        for subscription in list(self._subscriptions.values()):
            subscription.link_changed(broker, up)

    @property
    def homes(self) -> tuple[str, ...]:
        """Where it has subscriptions: one broker, unless it is moving."""
        return tuple(dict.fromkeys(each.home for each in self._subscriptions.values()))

    def close(self) -> None:
        """All go offline."""
        self._closed = True
        for subscription in list(self._subscriptions.values()):
            subscription.close()

    # Within

    def _homes(self) -> tuple[str, ...]:
        """Brokers by which channels can be had, the best first: where our others are or the last one was, the one that
        was said, or one that our name gives.
        """
        brokers, home = self._brokers(), (*self.homes, self._home)[0]
        at = brokers.index(home) if home in brokers else stable_key(self._client) % len(brokers)
        turned = (*brokers[at:], *brokers[:at])
        return turned if home in {"", turned[0]} else (home, *turned)

    def _forget(self, key: str) -> None:
        gone = self._subscriptions.pop(key, None)
        if gone is not None:
            self._home = gone.home


class _Parts:
    """Of one answer."""

    def __init__(self) -> None:
        self.found: dict[int, Mustered] = {}
        self.whole = asyncio.Event()

    def take(self, message: Mustered) -> None:
        self.found[message.part] = message
        if len(self.found) == message.parts:
            self.whole.set()


def _unanswered(channel: str, timeout_s: float) -> str:
    return f"channel {channel!r}: nobody answered within {timeout_s:g} s; does a pipeline run, and the agents?"


def stable_key(name: str) -> int:
    """A number from a name, the same in every process: it decides which of several brokers a client sticks to."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
