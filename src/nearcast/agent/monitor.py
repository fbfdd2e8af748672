"""Where the clients of each topic at one broker are, and how long its messages take (ePulsar, section 3.2).

What is said of a topic is of the same size however many clients it has. Who has not said where it is does not count.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nearcast.agent.analyzer import Users
from nearcast.control.whereabouts import coordinate_of, spot_of
from nearcast.domain.sketch import merged, percentiles, unflat
from nearcast.domain.slo import PERCENTILES
from nearcast.domain.whereabouts import Latencies, Spot, TopicPlace, along_s, distance_s
from nearcast.wire.loads import Counts
from nearcast.wire.places import Located

WINDOW_S = 10  # of measured latencies, in slots of a second
KEPT_S = 30.0  # how long a client is where it said: it says so every five
_ELSEWHERE = 8  # brokers that are told of a topic beside its own
_MUCH_S = 0.002
_MUCH = 0.1


@dataclass(frozen=True, slots=True)
class _Client:
    """`rtt_s`: to this broker, None where it was not measured; `clock`: whose, and how well it is known; None: not.
    `others_s`: to other brokers, where they were measured.
    """

    at: Spot
    rtt_s: float | None
    clock: tuple[str, float, float] | None
    until_s: float
    others_s: dict[str, float]

    def from_s(self, here: Spot) -> float:
        """The round trip to this broker, measured where it was: near by, what coordinates say is noise."""
        return distance_s(self.at, here) if self.rtt_s is None else self.rtt_s


class Monitor:
    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        self._took: dict[str, dict[int, dict[int, int]]] = {}  # topic -> slot -> sketch

    # What comes in

    def located(self, message: Located, here: Spot, now: float) -> bool:
        """Whether the client is somewhere else than it was, by much, or began or ceased to measure other brokers. Not
        taken where no node can be.
        """
        coordinate = coordinate_of(message.at)
        if not coordinate.is_valid or len(message.at.vec) != len(here.vec):
            return False
        clock = None
        if message.clock_uncertainty_s is not None:
            clock = (message.clock_via, message.clock_near_s, message.clock_uncertainty_s)
        before = self._clients.get(message.client)
        self._clients[message.client] = is_now = _Client(
            spot_of(coordinate), message.rtt_s, clock, now + KEPT_S, dict(message.rtts_s)
        )
        if before is None or bool(before.others_s) != bool(is_now.others_s):
            return True
        was_s, is_s = before.from_s(here), is_now.from_s(here)
        return max(abs(is_s - was_s), _went_s(before.at, is_now.at)) > max(_MUCH_S, _MUCH * was_s)

    def spot(self, client: str) -> Spot | None:
        """Where it said that it is."""
        found = self._clients.get(client)
        return None if found is None else found.at

    def counted(self, counts: Counts, now: float) -> None:
        slot = int(now)
        for each in counts.topics:
            if each.latencies:
                slots = self._took.setdefault(each.topic, {})
                slots[slot] = merged((slots.get(slot, {}), unflat(each.latencies)))

    # What is made of it

    def topics(self, here: Spot, users: Mapping[str, Users], now: float) -> list[TopicPlace]:
        """Of those of the topics whose clients said where they are, or whose latency was measured."""
        self._expire(now)
        found = (self._topic(topic, each, here) for topic, each in users.items())
        return [place for place in found if place is not None]

    def _expire(self, now: float) -> None:
        for client in [client for client, each in self._clients.items() if now >= each.until_s]:
            del self._clients[client]
        oldest = int(now) - WINDOW_S
        for topic, slots in list(self._took.items()):
            for slot in [slot for slot in slots if slot < oldest]:
                del slots[slot]
            if not slots:
                del self._took[topic]

    def _topic(self, topic: str, users: Users, here: Spot) -> TopicPlace | None:
        publishers, subscribers = self._known(users.publishers), self._known(users.subscribers)
        latencies = self._latencies(topic, publishers, subscribers)
        if not publishers and not subscribers and latencies is None:
            return None
        deviation_s = worst_s = 0.0
        middles = [_middle([each.at for each in side]) for side in (publishers, subscribers)]
        for side, middle in zip((publishers, subscribers), middles, strict=True):
            if middle is not None:
                higher = (along_s(each.at, middle) + each.at.height - middle.height for each in side)
                deviation_s += max(0.0, *higher)
                worst_s += max(each.from_s(here) for each in side)
        elsewhere = _elsewhere(publishers, subscribers)
        return TopicPlace(topic, middles[0], middles[1], deviation_s, worst_s, latencies, elsewhere)

    def _known(self, clients: Collection[str]) -> list[_Client]:
        return [self._clients[client] for client in sorted(clients) if client in self._clients]

    def _latencies(self, topic: str, publishers: list[_Client], subscribers: list[_Client]) -> Latencies | None:
        sketch = merged(self._took.get(topic, {}).values())
        if not sketch:
            return None
        p50_s, p90_s, p95_s, p99_s = percentiles(sketch, PERCENTILES)
        uncertainty_s = _uncertainty_s(publishers, subscribers)
        return Latencies(sum(sketch.values()), p50_s, p90_s, p95_s, p99_s, uncertainty_s)


def _uncertainty_s(publishers: list[_Client], subscribers: list[_Client]) -> float:
    """By how much the clocks of both sides may differ: those who have their time from one agent share its error.

    Of publishers elsewhere, whose messages are forwarded here, nothing is known: they count as the subscribers do.
    """
    there = [each.clock for each in subscribers if each.clock is not None]
    sides = [[each.clock for each in publishers if each.clock is not None] or there, there]
    shared = len({via for side in sides for via, _, _ in side}) == 1
    return sum(max((near_s if shared else all_s for _, near_s, all_s in side), default=0.0) for side in sides)


def _elsewhere(publishers: list[_Client], subscribers: list[_Client]) -> tuple[tuple[str, float], ...]:
    """Of the brokers that every client has measured, this one too, those with the smallest worst case."""
    sides = (publishers, subscribers)
    if not all(sides) or any(each.rtt_s is None for side in sides for each in side):
        return ()
    known = set(publishers[0].others_s).intersection(*(each.others_s for side in sides for each in side))
    found = ((sum(max(each.others_s[broker] for each in side) for side in sides), broker) for broker in known)
    return tuple((broker, worst_s) for worst_s, broker in sorted(found)[:_ELSEWHERE])


def _middle(spots: list[Spot]) -> Spot | None:
    if not spots:
        return None
    columns = zip(*(each.vec for each in spots), strict=True)
    return Spot(tuple(sum(column) / len(spots) for column in columns), sum(each.height for each in spots) / len(spots))


def differs(one: TopicPlace, other: TopicPlace) -> bool:
    """Whether the topic's clients, taken together, are somewhere else, by much, or have begun or ceased to measure."""
    if bool(one.elsewhere) != bool(other.elsewhere):
        return True
    changed_s = max(abs(one.worst_s - other.worst_s), abs(one.deviation_s - other.deviation_s))
    for now, before in ((one.publishers, other.publishers), (one.subscribers, other.subscribers)):
        if (now is None) != (before is None):
            return True
        if now is not None and before is not None:
            changed_s = max(changed_s, _went_s(before, now))
    return changed_s > max(_MUCH_S, _MUCH * other.worst_s)


def _went_s(before: Spot, now: Spot) -> float:
    return along_s(before, now) + abs(before.height - now.height)
