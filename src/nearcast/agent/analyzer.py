"""The local load analyzer (Dynamoth, section III-A): what passed one broker, per topic and second.

Clients count and say so once a second; the server's own counters give its bandwidth, and show who listens beside our
clients. What clients said holds for twice as long as it covered, so that one who is late is not taken for silent; who
stopped is seen to have stopped that much later. Where only plain clients use a topic and the server counts listeners
and no messages, as Redis does, a sampler listens for a moment (`sampler.py`): an estimate, which holds for a while.

Not promised: that such an estimate is not old or, of a topic that is too busy to be listened to, more than a lower
bound; plain publications on a topic that nobody listens to; plain subscriptions with wildcards. All of them are in the
broker's bandwidth.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from nearcast.domain.load import UNKNOWN, BrokerReport, Resources, TopicLoad
from nearcast.wire.loads import Counts

_HELD = 2.0  # times as long as they cover
_FRESH_S = 5.0  # how long the server's counters are believed
_KEPT_S = 60.0  # how long its list of listeners is: it is asked for seldom when it is long
# Of what a server says it uses the median of so many, a second apart: traffic is uneven, NATS divides by whole seconds
# and errs at times. A median follows a step late, and then all at once: a mean would tell of half an overload first.
_CORES = 9
_NOISE = 1.1  # listeners who get so much more than was counted as published hear somebody who does not count


@dataclass(frozen=True, slots=True)
class Totals:
    """A server's counters since it was started; and what it uses now. None where it does not say.

    Of its processor time a server says how much it has used in all (`cpu_s`), or how many processors lately (`cores`).
    """

    at_s: float
    out_bytes: int
    out_messages: int | None = None
    in_bytes: int | None = None
    cpu_s: float | None = None
    cores: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is subscribed to one topic, by the server's word.

    `plain`: the messages, and bytes by estimate, that each plain subscription has been sent, by a key of its own; None
    where the server does not say. Then `number` is of all subscriptions, ours too.
    """

    number: int
    plain: Mapping[str, tuple[int, float]] | None = None


@dataclass(frozen=True, slots=True)
class Listening:
    """`plain`: whether any client that is not ours listens at all."""

    at_s: float
    topics: Mapping[str, Listeners]
    plain: bool = True


@dataclass(frozen=True, slots=True)
class Users:
    """Who uses a topic by the agent's own register. `tapped`: the agent listens too; `forwarded`: others' agents may
    send here what was published elsewhere."""

    subscribers: frozenset[str] = frozenset()
    publishers: frozenset[str] = frozenset()
    tapped: bool = False
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class _Rates:
    publications: float
    bytes_in: float
    deliveries: float
    bytes_out: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What was heard of one topic, per second, and until when that is believed."""

    topic: str
    publications: float
    bytes_in: float
    until_s: float


@dataclass(slots=True)
class _Plain:
    """What plain subscribers of one topic get per second."""

    number: int
    each: list[float] = field(default_factory=list)
    bytes_out: float = 0.0


class Analyzer:
    """`capacity_bytes_per_s` is infinite where none is configured; `most` are the other limits."""

    def __init__(self, broker: str, capacity_bytes_per_s: float = math.inf, most: Resources = UNKNOWN) -> None:
        self.broker = broker
        self.capacity_bytes_per_s = capacity_bytes_per_s
        self.most = most
        self._counts: dict[str, dict[str, _Rates]] = {}  # topic -> client
        self._totals: Totals | None = None
        self._out_bytes_per_s = 0.0
        self._out_messages_per_s: float | None = None
        self._cores: deque[float] = deque(maxlen=_CORES)
        self._out_until_s = -math.inf
        self._listening: Listening | None = None
        self._plain: dict[str, _Plain] = {}
        self._samples: dict[str, Sample] = {}
        self._excess: dict[str, float] = {}  # publications that nobody counted, as of the last report

    # What comes in

    def counted(self, counts: Counts, now: float) -> None:
        seconds, until_s = counts.seconds, now + _HELD * counts.seconds
        for each in counts.topics:
            self._counts.setdefault(each.topic, {})[counts.client] = _Rates(
                each.publications / seconds,
                each.bytes_in / seconds,
                each.deliveries / seconds,
                each.bytes_out / seconds,
                until_s,
            )

    def totals(self, totals: Totals) -> None:
        before, self._totals = self._totals, totals
        if before is None or totals.at_s <= before.at_s or totals.out_bytes < before.out_bytes:
            return  # the first, or the first after the server was started anew
        seconds = totals.at_s - before.at_s
        self._out_bytes_per_s = (totals.out_bytes - before.out_bytes) / seconds
        self._out_messages_per_s = _rate(before.out_messages, totals.out_messages, seconds)
        cores = _rate(before.cpu_s, totals.cpu_s, seconds) if totals.cores is None else totals.cores
        if cores is not None:
            self._cores.append(cores)
        self._out_until_s = totals.at_s + _FRESH_S

    def listening(self, listening: Listening) -> None:
        before, self._listening = self._listening, listening
        seconds = listening.at_s - before.at_s if before is not None else 0.0
        self._plain = {}
        for topic, listeners in listening.topics.items():
            if listeners.plain is None or not listeners.plain:
                continue
            found = self._plain[topic] = _Plain(listeners.number)
            if before is None or seconds <= 0.0:
                continue
            was = before.topics.get(topic)
            known = (was.plain if was is not None else None) or {}
            for key, (messages, size_bytes) in listeners.plain.items():
                messages_before, size_before = known.get(key, (0, 0.0))
                if messages >= messages_before:
                    found.each.append((messages - messages_before) / seconds)
                    found.bytes_out += max(0.0, size_bytes - size_before) / seconds

    def sampled(self, sample: Sample) -> None:
        self._samples[sample.topic] = sample

    # What is made of it

    def uncounted(self, users: Mapping[str, Users]) -> list[str]:
        """Topics that only plain clients use and whose messages nobody counts, by name."""
        heard = self._listening.topics if self._listening is not None else {}
        nobody = Users()
        return sorted(
            topic
            for topic in heard
            if topic not in self._counts
            and not (each := users.get(topic, nobody)).tapped
            and self._not_ours(topic, len(each.subscribers)) > 0
        )

    def report(self, now: float, at_s: float, users: Mapping[str, Users]) -> BrokerReport:
        """As of `now`, on the clock of what came in; dated `at_s`. Busiest topics first."""
        self._expire(now)
        heard = self._listening.topics if self._listening is not None else {}
        names = dict.fromkeys((*self._counts, *users, *heard))
        excess, self._excess = self._excess, {}
        topics = [self._topic(name, users.get(name, Users()), excess.get(name, 0.0)) for name in names]
        topics.sort(key=lambda each: (-each.bytes_out, -each.bytes_in, each.topic))
        fresh = now < self._out_until_s
        out_bytes_per_s = self._out_bytes_per_s if fresh else sum(each.bytes_out for each in topics)
        used = self._used(sum(each.deliveries for each in topics), fresh=fresh)
        return BrokerReport(
            self.broker, at_s, out_bytes_per_s, self.capacity_bytes_per_s, tuple(topics), used, self.most
        )

    def _used(self, deliveries: float, *, fresh: bool) -> Resources:
        """Redis does not count what it sends: that is what clients counted."""
        if not fresh or self._totals is None:
            return Resources(out_messages_per_s=deliveries)
        messages = deliveries if self._out_messages_per_s is None else self._out_messages_per_s
        return Resources(median(self._cores) if self._cores else None, self._totals.memory_bytes, messages)

    def who(self, topic: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Clients that published on the topic, and those that got something, as they said themselves."""
        told = self._counts.get(topic, {})
        publishers = sorted(client for client, rates in told.items() if rates.publications)
        return tuple(publishers), tuple(sorted(client for client, rates in told.items() if rates.deliveries))

    def _expire(self, now: float) -> None:
        for topic, told in list(self._counts.items()):
            for client in [client for client, rates in told.items() if now >= rates.until_s]:
                del told[client]
            if not told:
                del self._counts[topic]
        self._samples = {topic: each for topic, each in self._samples.items() if now < each.until_s}
        if self._listening is not None and now >= self._listening.at_s + _KEPT_S:
            self._listening, self._plain = None, {}

    def _topic(self, topic: str, users: Users, excess_before: float) -> TopicLoad:
        told = self._counts.get(topic)
        if told is None and not (self._listening is not None and topic in self._listening.topics):
            return TopicLoad(topic, 0.0, 0.0, 0.0, 0.0, 0, len(users.subscribers))  # most topics, in a large fleet
        told = told or {}
        rates = told.values()
        publications, bytes_in = sum(each.publications for each in rates), sum(each.bytes_in for each in rates)
        deliveries, bytes_out = sum(each.deliveries for each in rates), sum(each.bytes_out for each in rates)
        publishers = sum(each.publications > 0.0 for each in rates)
        sample = self._samples.get(topic)
        if sample is not None and not told and not users.tapped:
            publications, bytes_in, publishers = sample.publications, sample.bytes_in, int(sample.publications > 0.0)
        ours = {*users.subscribers, *(client for client, each in told.items() if each.deliveries)}
        plain = self._plain.get(topic) or _Plain(self._not_ours(topic, len(ours) + users.tapped))
        size = _mean(bytes_out + plain.bytes_out, deliveries + sum(plain.each)) or _mean(bytes_in, publications)

        per_listener = [each.deliveries for each in rates if each.deliveries] + plain.each
        passed = median(per_listener) if per_listener else 0.0
        if passed > _NOISE * publications and not users.forwarded:
            # Seen twice: publishers and subscribers do not tell at the same instant.
            self._excess[topic] = passed - publications
            uncounted = min(excess_before, passed - publications)
            publications += uncounted
            bytes_in += uncounted * size
            publishers += uncounted > 0.0  # one at least
        if plain.each:
            deliveries += sum(plain.each)
            bytes_out += plain.bytes_out
        else:
            copies = plain.number * max(publications, passed)
            deliveries += copies
            bytes_out += copies * size
        return TopicLoad(topic, publications, deliveries, bytes_in, bytes_out, publishers, len(ours) + plain.number)

    def _not_ours(self, topic: str, ours: int) -> int:
        if self._listening is None or not self._listening.plain:
            return 0
        listeners = self._listening.topics.get(topic)
        return 0 if listeners is None or listeners.plain is not None else max(0, listeners.number - ours)


def _rate(before: float | None, after: float | None, seconds: float) -> float | None:
    return None if before is None or after is None else max(0.0, after - before) / seconds


def _mean(total: float, number: float) -> float:
    return total / number if number else 0.0
