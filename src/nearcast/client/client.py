"""The client: publish and subscribe by topic, wherever the topic is."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Any, Self

from nearcast.brokers.link import Connect, LearnAddresses, forget_addresses
from nearcast.brokers.log import LogSites
from nearcast.brokers.pool import Inbox, LinkPool
from nearcast.client.channel_subscription import ChannelSubscription, OnMissed
from nearcast.client.channels import Channels, stable_key
from nearcast.client.live_subscription import LiveSubscription
from nearcast.client.log_publication import LogPublication
from nearcast.client.log_subscription import FIRST, NEW, LogSubscription, Since
from nearcast.client.log_view import NOTHING_WRITTEN, LogView, Written, without
from nearcast.client.publication import Publication
from nearcast.client.subscription import OnMessage, OnReport, Overflow, Subscription
from nearcast.client.survey import Survey
from nearcast.control.fleet_time import FleetTime
from nearcast.control.log_publisher import LogPublisher
from nearcast.control.log_route import LogRoute
from nearcast.control.publisher import Publisher
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.subscriber import Subscriber
from nearcast.control.tally import Tally
from nearcast.control.timing import Timing
from nearcast.control.whereabouts import Pace, Whereabouts
from nearcast.domain.channel import ChannelSpec, Value
from nearcast.domain.errors import (
    AccessRefused,
    ConfigError,
    LeaseLost,
    LinkClosed,
    LogRefused,
    TopicChanged,
    TopicNameError,
)
from nearcast.domain.message import Message
from nearcast.domain.ring import Ring
from nearcast.domain.topic import covers, validate_topic
from nearcast.transport.clock import Clock, SystemClock
from nearcast.transport.crew import Crew
from nearcast.wire.channels import MOST_NEAR, Described, Following, HomeAt, Mustered, Near, Notice, Refusal
from nearcast.wire.control import AGENT_SUBJECT, Generation, Hold, Unsure, Welcome, client_subject, seal, unseal
from nearcast.wire.dialect import Dialect
from nearcast.wire.places import Echo
from nearcast.wire.rejects import Rejects


class Client:
    """Use as `async with Client(...) as client`, or call `close()`.

    `name` must be unique in the fleet; `ring` need only hold some brokers of it: agents send a newer one. `rng` gives
    publisher ids, so that a seeded run repeats itself; leave it out in production. With `count_every_s`, the agents
    of the brokers in use are told so often what was sent and received there, if anything was. `learn` is told where
    brokers are that came later, before `connect` is asked for them. `logs` are the sites that keep persistent topics;
    without them, such topics can be neither published on nor read.

    With a `pace` it finds out where it is and what the fleet's time is, and says so to the agents of the brokers in
    use. A client that moves names the broker nearest to it as its `gateway`, and another one with `set_gateway`. One
    that `seeks_home` says so also when it has channels only, so that its home can be near.

    `allowed` are patterns of the topics that a tenant may use: others are an AccessRefused. Without any, all are.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        ring: Ring,
        *,
        dialect: Dialect,
        clock: Clock | None = None,
        timing: Timing | None = None,
        rules: Rules = ALL_ON,
        rng: random.Random | None = None,
        count_every_s: float | None = None,
        learn: LearnAddresses = forget_addresses,
        pace: Pace | None = None,
        gateway: str = "",
        logs: LogSites | None = None,
        seeks_home: bool = False,
        allowed: Sequence[str] = (),
    ) -> None:
        try:
            validate_topic(name)  # it is part of a subject that agents answer on
        except TopicNameError as error:
            raise ConfigError(f"client name: {error}") from None
        self.name = name
        self._allowed = tuple(allowed)
        self.rejects = Rejects()
        self._ring = ring
        self._dialect = dialect
        self._clock = clock or SystemClock()
        self._timing = timing or Timing()
        self._rules = rules
        self._rng = rng or random.SystemRandom()
        self._crew = Crew()
        self._pool = LinkPool(
            connect,
            self._clock,
            self._crew,
            inbox=self._inbox,
            on_state=self._link_changed,
            on_open=self._link_opened,
        )
        self._publications: dict[str, Publication | LogPublication] = {}
        self._by_id: dict[int, Publication | LogPublication] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._channels = Channels(
            name,
            self._pool,
            self._clock,
            brokers=lambda: self._ring.brokers,
            timing=self._timing,
            dialect=dialect,
            rejects=self.rejects,
            near=self._near,
        )
        self._home: str | None = None
        self._seeks_home = seeks_home and pace is not None
        self._time = FleetTime()
        self._tally = Tally(name, self._time)
        self._count_every_s = count_every_s
        self._learn = learn
        self._logs = logs
        self._counting = False
        self._surveying = False
        self._closed = False
        self._survey: Survey | None = None
        if pace is not None:
            self._survey = Survey(
                Whereabouts(name, pace, self._time, self._rng.random, gateway=gateway),
                self._pool,
                connect,
                self._clock,
                self._crew,
                dialect=dialect,
                rejects=self.rejects,
                used=self._used,
                ring=lambda: self._ring.brokers,
                learn=learn,
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        timeout_s: float = 30.0,
        begun: Callable[[int], None] | None = None,
    ) -> Coroutine[Any, Any, int]:
        """To be awaited. Returns the message's sequence number once it is handed to the server's connection, or, of a
        persistent topic, once the topic's quorum has written it.

        `begun` is told the number before the message leaves. Raises TopicNameError, AccessRefused, MessageTooLarge,
        LeaseLost when no route could be had in time, Unconfirmed when it is not known in time whether it was written,
        or LinkClosed after `close()`.
        """
        return self.publication(topic).publish(payload, timeout_s=timeout_s, begun=begun)

    def publication(self, topic: str) -> Publication | LogPublication:
        """This client's publisher on the topic, opened on first use; anew, under another id, after a long rest."""
        return self._publications.get(topic) or self._new_publication(topic)

    async def publish_once(self, topic: str, payloads: Sequence[bytes], *, name: str, timeout_s: float = 60.0) -> None:
        """Publishes all of these as one publisher, `name`: once, however often that is done under the same name, also
        by another process after this one has died in the middle of it.

        Of a persistent topic, what is in the log under that name is left out; it need not have been in this order.
        Raises LogRefused when something is there that is not among these, and Unconfirmed, after which the same call
        goes on where this one ended. Of another topic all is sent again under the same numbers, and whoever has been
        subscribed since then removes the repeats.
        """
        publisher_id = stable_key(f"{name}\n{topic}") // 2 + 1
        if topic in self._publications:
            raise ConfigError(f"client {self.name!r} publishes on {topic!r} already; use another one for {name!r}")
        first = await self._asked(topic, timeout_s)
        publication: Publication | LogPublication
        if first is None:
            publication = self._new_publication(topic, publisher_id)
        else:
            view = self._view(first, timeout_s)
            written = await view.written(publisher_id)
            payloads = without(payloads, written.messages, f"topic {topic!r}: under the name {name!r}")
            publication = self._log_publication(first, publisher_id, written)
        try:
            await publication.publish_all(payloads, timeout_s=timeout_s)
        finally:
            publication.close()
            self._rests(topic, publisher_id)

    async def view(self, topic: str, *, epoch: int = 0, timeout_s: float = 30.0) -> LogView:
        """The log of a persistent topic as it is now; as an agent knows it that has heard of this epoch.

        Raises ConfigError when the topic is not persistent, LeaseLost when no agent answers in time.
        """
        until_s = self._clock.now() + timeout_s
        while True:
            first = await self._asked(topic, timeout_s)
            if first is None:
                raise ConfigError(
                    f"topic {topic!r} is not persistent: nothing is kept of it that could be read"
                    f" (`nearcast topic set {topic} --persistent` keeps what comes from then on)"
                )
            if first.route.epoch >= epoch:
                return self._view(first, timeout_s)
            if self._clock.now() > until_s:
                raise LeaseLost(f"topic {topic!r}: no agent knew of epoch {epoch} within {timeout_s:g} s")
            await self._clock.sleep(self._timing.retry_s)

    def _view(self, first: Welcome, patience_s: float) -> LogView:
        assert first.log is not None
        sites = self._must_keep_logs(first.topic)
        return LogView(first.topic, first.log, sites, self._clock, self.rejects, patience_s=patience_s)

    async def _asked(self, topic: str, timeout_s: float) -> Welcome | None:
        """What an agent says of a persistent topic; None of another."""
        self._must_be_ours(topic)
        self._must_be_open()
        if topic in self._subscriptions:
            raise ConfigError(f"client {self.name!r} is subscribed to {topic!r}; ask with another one")
        asking = self._live_subscription(topic, _ignore, None, 1, Overflow.DROP_OLDEST)
        try:
            async with asyncio.timeout(timeout_s):
                await self._begin(asking)
        except TopicChanged as changed:
            first: Welcome = changed.args[1]
            return first
        except TimeoutError:
            raise LeaseLost(
                f"topic {topic!r}: no agent said within {timeout_s:g} s where it is; are the brokers and agents up?"
            ) from None
        asking.close()
        return None

    def _new_publication(self, topic: str, publisher_id: int | None = None) -> Publication:
        self._must_be_ours(topic)
        self._must_be_open()
        publisher_id = publisher_id or self._rng.getrandbits(63) + 1
        machine = Publisher(topic, publisher_id, self.name, self._ring, timing=self._timing, rules=self._rules)
        machine.lease.home = self._home
        for broker in self._pool.broken:
            machine.lost(broker)
        self._count()
        rests = partial(self._rests, topic, publisher_id)
        publication = Publication(
            machine, self._pool, self._clock, self._crew, self._dialect, self._tally, rests, self._log_publication
        )
        self._publications[topic] = self._by_id[publisher_id] = publication
        return publication

    async def subscribe(
        self,
        topic: str,
        callback: OnMessage | None = None,
        *,
        on_report: OnReport | None = None,
        buffer: int = 65_536,
        overflow: Overflow = Overflow.DROP_OLDEST,
        since: Since | None = None,
    ) -> Subscription:
        """Returns when every message published from now on will arrive, once and in its publisher's order.

        Without a callback, iterate over the subscription; at most `buffer` messages wait. `on_report` is told of gaps
        and discontinuities. One subscription per topic and client: share it, or use a second client.

        Of a persistent topic, `since` says where to begin: after a message's `position`, at a time (seconds since
        1970), at the "first" message there is, or, as without it, with what is "new". For another topic it is a
        ConfigError: nothing is kept of that.
        """
        self._must_be_ours(topic)
        self._must_be_open()
        if buffer < 1:
            raise ConfigError(f"topic {topic!r}: buffer is {buffer}; it must hold at least one message")
        if topic in self._subscriptions:
            raise ConfigError(f"client {self.name!r} is subscribed to {topic!r} already; share that subscription")
        if isinstance(since, str) and since not in {FIRST, NEW}:
            raise ConfigError(f"topic {topic!r}: since is {since!r}; expected a position, a time, {FIRST!r} or {NEW!r}")
        subscription: Subscription = self._live_subscription(topic, callback, on_report, buffer, overflow)
        try:
            await self._begin(subscription)
            if since is not None:
                subscription.close()
                raise ConfigError(f"topic {topic!r} is not persistent: nothing is kept of it that `since` could name")
        except TopicChanged as changed:
            subscription = self._log_subscription(changed.args[1], since or NEW, callback, on_report, buffer)
            await self._begin(subscription)
        return subscription

    async def subscribe_channel(
        self,
        channel: str,
        parameters: Mapping[str, Value] | None = None,
        *,
        after: int | None = None,
        keep_s: float = 3600.0,
        on_missed: OnMissed | None = None,
        buffer: int = 1024,
        automatic: bool = True,
        timeout_s: float = 30.0,
    ) -> ChannelSubscription:
        """Returns when every result of the channel for these values, from now on, will be delivered, once and in order.

        `after`: the `position` of an earlier subscription, which is gone on with, here or in another process. While the
        subscriber is away without having unsubscribed, results are made for `keep_s` more; what could not be had all
        the same is told to `on_missed`. With `automatic` a notification counts as done with when the next one is asked
        for; otherwise when `acknowledge` says so.

        Raises ChannelError for a channel that is not there, or values that do not fit it; LinkDown when nobody answers
        in time.
        """
        self._must_be_open()
        if self._seeks_home:
            self._survey_begins()
        return await self._channels.subscribe(
            channel,
            parameters or {},
            after=after,
            keep_s=keep_s,
            on_missed=on_missed,
            buffer=buffer,
            automatic=automatic,
            timeout_s=timeout_s,
        )

    async def describe_channel(self, channel: str, *, timeout_s: float = 30.0) -> ChannelSpec:
        """Its parameters, as the pipeline has them, through whichever agent answers; not its query.

        Raises ChannelError when there is no such channel, LinkDown when nobody answers in time.
        """
        self._must_be_open()
        return await self._channels.describe(channel, timeout_s)

    async def count_followers(self, channel: str, broker: str, *, timeout_s: float = 10.0) -> dict[str, int]:
        """How many follow each distinct subscription to a channel at a broker now, by key.

        Raises LinkDown when its agent does not answer in time.
        """
        self._must_be_open()
        return await self._channels.followers(channel, broker, timeout_s)

    def set_home(self, broker: str) -> None:
        """This broker is the client's home from now on; nothing is missed, repeated or out of order by it.

        Subscriptions to channels are had by it, and of homed topics it publishes and hears there, where they have the
        broker. The coordinator may want it elsewhere later. Raises ConfigError for one that there is not.
        """
        if broker not in self._ring.brokers:
            raise ConfigError(f"no broker {broker!r}; brokers are {', '.join(self._ring.brokers)}")
        self._go_home(broker)

    @property
    def home(self) -> str | None:
        """The broker that was set, or that the coordinator wanted; None where nobody has said."""
        return self._home

    def _go_home(self, broker: str) -> None:
        """One that an agent has named need not be in a ring that we know."""
        self._home = broker
        self._channels.go_home(broker)
        for publication in list(self._publications.values()):
            if isinstance(publication, Publication):
                publication.rehome(broker)
        for subscription in list(self._subscriptions.values()):
            if isinstance(subscription, LiveSubscription):
                subscription.rehome(broker)

    def _live_subscription(
        self, topic: str, callback: OnMessage | None, on_report: OnReport | None, buffer: int, overflow: Overflow
    ) -> LiveSubscription:
        key = stable_key(self.name)
        machine = Subscriber(topic, key, self.name, self._ring, timing=self._timing, rules=self._rules)
        machine.lease.home = self._home
        return LiveSubscription(
            machine,
            self._pool,
            self._clock,
            dialect=self._dialect,
            rejects=self.rejects,
            tally=self._tally,
            on_message=callback,
            on_report=on_report,
            buffer=buffer,
            overflow=overflow,
            closed=self._forget,
            learn=self._learn,
        )

    def _log_subscription(
        self, first: Welcome, since: Since, callback: OnMessage | None, on_report: OnReport | None, buffer: int
    ) -> LogSubscription:
        return LogSubscription(
            self._log_route(first, 0),
            self._pool,
            self._must_keep_logs(first.topic),
            self._clock,
            self._crew,
            since=float(since) if isinstance(since, int) else since,
            dialect=self._dialect,
            rejects=self.rejects,
            on_message=callback,
            on_report=on_report,
            buffer=buffer,
            closed=self._forget,
        )

    def _log_publication(
        self, first: Welcome, publisher_id: int | None = None, written: Written = NOTHING_WRITTEN
    ) -> LogPublication:
        """Takes the place of the publication that was told of a log, or goes on behind what was written."""
        topic, publisher_id = first.topic, publisher_id or self._rng.getrandbits(63) + 1
        before = self._publications.pop(topic, None)
        if isinstance(before, Publication):
            self._by_id.pop(before.machine.id, None)
        machine = LogPublisher(self._log_route(first, publisher_id), written.last, written.before)
        sites, rests = self._must_keep_logs(topic), partial(self._rests, topic, publisher_id)
        publication = LogPublication(
            machine, self._pool, sites, self._clock, self._crew, self._dialect, self.time_ns, rests
        )
        self._publications[topic] = self._by_id[publisher_id] = publication
        return publication

    def _log_route(self, first: Welcome, publisher_id: int) -> LogRoute:
        topic, timing, rules = first.topic, self._timing, self._rules
        return LogRoute(topic, publisher_id, self.name, self._ring, timing=timing, rules=rules, first=first)

    def _must_keep_logs(self, topic: str) -> LogSites:
        if self._logs is None:
            raise LogRefused(f"topic {topic!r} is persistent, and this client was made without a way to its log")
        return self._logs

    async def _begin(self, subscription: Subscription) -> None:
        self._subscriptions[subscription.topic] = subscription
        self._count()
        try:
            await subscription.start()
        except BaseException:
            subscription.close()
            raise

    @property
    def topics(self) -> tuple[str, ...]:
        """What this client is subscribed to, or about to be."""
        return tuple(self._subscriptions)

    def set_gateway(self, broker: str) -> None:
        """The client has moved, and this broker is nearest to it now: agents are told at once, if at all."""
        if self._survey is not None:
            self._survey.set_gateway(broker)

    def time_ns(self) -> int:
        """The fleet's time, by which `Message.sent_ns` is; the wall clock's while the fleet's is not known."""
        now = self._clock.now()
        self._time.unknown(self._clock.wall() - now)
        return int((now + self._time.ahead_s) * 1e9)

    def time_uncertainty_s(self) -> float | None:
        """By how much `time_ns` may differ from the fleet's; None while it is the wall clock's."""
        return self._time.uncertainty_s(self._clock.now())

    async def close(self) -> None:
        """Says goodbye everywhere, hands over what was published, and ends. Whoever still waits gets a LinkClosed."""
        self._closed = True
        for subscription in list(self._subscriptions.values()):
            subscription.close()
        self._channels.close()
        for publication in list(self._publications.values()):
            publication.close()
        if self._counting:
            self._tell_counts(least_s=self._count_every_s or 0.0)
        if self._survey is not None:
            await self._survey.close()
        await self._pool.close()
        await self._crew.close()
        if self._logs is not None:
            await self._logs.close()

    async def abandon(self) -> None:
        """Ends at once, without a goodbye: what a crash looks like from outside."""
        if self._survey is not None:
            self._survey.cancel()
        await self._crew.close()

    # Within

    def _must_be_ours(self, topic: str) -> None:
        """Servers refuse a tenant's client what is not its own, and end the connection: so it is told before."""
        validate_topic(topic)
        if self._allowed and not covers(self._allowed, topic):
            raise AccessRefused(f"topic {topic!r}: client {self.name!r} may use {', '.join(self._allowed)}")

    def _must_be_open(self) -> None:
        if self._closed:
            raise LinkClosed(f"client {self.name!r} is closed; start another one")

    def _count(self) -> None:
        """With the first topic: a client that has none says nothing and asks nobody."""
        if self._counting:
            return
        self._counting = True
        if self._count_every_s is not None:
            self._tally.begin(self._clock.now())
            self._crew.start(self._tell_often(self._count_every_s), f"counts of {self.name}")
        self._survey_begins()

    def _survey_begins(self) -> None:
        if self._survey is not None and not self._surveying:
            self._surveying = True
            self._survey.start()

    def _near(self) -> Near:
        """The brokers that are near, once we know."""
        now = self._clock.now()
        if self._survey is None or not self._seeks_home or not self._survey.machine.surveyed(now):
            return ()
        return self._survey.machine.nearest_s(now)[:MOST_NEAR]

    def _used(self) -> list[str]:
        """Brokers where this client has topics, or seeks a home for its channels."""
        homes = self._channels.homes if self._seeks_home else ()
        targets = (each.machine.targets for each in self._publications.values())
        attached = (each.brokers for each in self._subscriptions.values())
        return list(dict.fromkeys(chain(*targets, *attached, homes)))

    async def _tell_often(self, every_s: float) -> None:
        while True:
            await self._clock.sleep(every_s)
            self._tell_counts()

    def _tell_counts(self, *, least_s: float = 0.0) -> None:
        for broker, counts in self._tally.tell(self._clock.now(), least_s=least_s, up=self._pool.up):
            self._pool.publish(broker, AGENT_SUBJECT, seal(counts, self._dialect))

    def _rests(self, topic: str, publisher_id: int) -> None:
        self._publications.pop(topic, None)
        self._by_id.pop(publisher_id, None)

    def _forget(self, topic: str) -> None:
        self._subscriptions.pop(topic, None)

    def _inbox(self, broker: str) -> Inbox:
        def receive(data: bytes) -> None:
            message = self.rejects.read(lambda: unseal(data, self._dialect), f"agent of {broker}")
            if isinstance(message, Hold):
                self._hold(message)
            elif isinstance(message, Welcome | Unsure | Generation):
                self._answered(message, broker)
            elif isinstance(message, HomeAt):
                self._learn(message.addresses)
                self._go_home(message.broker)
            elif isinstance(message, Following | Refusal | Notice | Described | Mustered):
                self._channels.answered(message, broker)
            elif isinstance(message, Echo) and self._survey is not None:
                self._survey.echo(message)

        return Inbox(client_subject(self.name), receive)

    def _hold(self, message: Hold) -> None:
        publication = self._by_id.get(message.publisher)
        if isinstance(publication, Publication):
            publication.answered(message)

    def _answered(self, message: Welcome | Unsure | Generation, broker: str) -> None:
        if not isinstance(message, Generation):
            if message.addresses:
                self._learn(message.addresses)
            if message.ring_version > self._ring.version:
                self._ring = Ring(message.ring, message.ring_version)
        if not isinstance(message, Generation) and message.publisher:
            publication = self._by_id.get(message.publisher)
            if publication is not None:
                publication.answered(message)
            return
        subscription = self._subscriptions.get(message.topic)
        if subscription is not None:
            subscription.answered(message, broker)

    def _link_opened(self, _broker: str) -> None:
        for publication in list(self._publications.values()):
            publication.link_opened()

    def _link_changed(self, broker: str, up: bool) -> None:
        for publication in list(self._publications.values()):
            publication.link_changed(broker, up)
        for subscription in list(self._subscriptions.values()):
            subscription.link_changed(broker, up)
        self._channels.link_changed(broker, up)


def _ignore(_message: Message) -> None:
    pass
