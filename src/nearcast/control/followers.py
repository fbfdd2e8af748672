"""Who follows what at one broker, by client, and what is published for it; and who uses homed topics there: what its
agent tells the coordinator.

A round tells of everybody, every few seconds. Who has come or left since is told soon, together with others who did.
Of a crowd rounds are told more seldom, with the keys' rates alone in between, and only of so many of it as one round
can bear: the leader sees a part of such a broker's load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

import msgspec

from nearcast.control.rates import KeyRates
from nearcast.wire.channels import AtHome, HomedClient, Near, Resident

ROUND_S = 5.0
MOST_TOLD = 100_000  # clients; some 7 MB, and half a second of the agent's and of the leader's time
MOST_TOLD_HZ = 2_000.0  # clients a second: of more than 10,000 rounds are seldom
RATE_WINDOW_S = 60.0  # the longest period of a channel that counts evenly
_SLOT_S = 5.0
_SOON_S = 0.2  # who comes or leaves within this time is told of together
_MOST_BYTES = 400_000  # of one message, about: a NATS server takes 1 MB unless it is told otherwise
_MOST_KEYS = 1000  # of one client, at a time
_MOST_RATES = 8000  # of one message
_NUMBER_BYTES, _FIELD_BYTES = 3, 12  # of a key's number, and of what is around a name, at most


class _Client(msgspec.Struct, gc=False):
    keys: dict[str, None]
    near: Near = ()


class TopicUser(msgspec.Struct, frozen=True, gc=False):
    """What one client does here on homed topics: see `HomedClient`."""

    publishes: tuple[str, ...]
    subscribes: tuple[str, ...]
    home: str = ""
    at: tuple[float, ...] = ()


TopicUsers = Callable[[], Mapping[str, TopicUser]]
"""By client, who uses homed topics at the broker now."""


class Followers:
    """`first`: the number of the first round, higher than those of earlier lives of the same agent."""

    __slots__ = (
        "_broker",
        "_clients",
        "_left",
        "_news",
        "_rates",
        "_rates_s",
        "_round",
        "_round_s",
        "_soon_s",
        "_users",
    )

    def __init__(self, broker: str, first: int, users: TopicUsers = dict) -> None:
        self._broker = broker
        self._round = first
        self._users = users
        self._clients: dict[str, _Client] = {}
        self._rates = KeyRates(RATE_WINDOW_S, _SLOT_S)
        self._news: dict[str, None] = {}
        self._left: dict[str, None] = {}
        self._round_s = -math.inf  # when everybody is told of next
        self._soon_s = math.inf  # when those are who came or left
        self._rates_s = math.inf  # when only rates are, between rounds that are far apart

    # What happens

    def follows(self, client: str, key: str, near: Near, now: float) -> None:
        found = self._clients.get(client)
        if found is None:
            found = self._clients[client] = _Client({})
            self._left.pop(client, None)
            self._tell_of(client, now)
        if near and not found.near:
            self._tell_of(client, now)
        found.keys[key] = None
        found.near = near or found.near

    def leaves(self, client: str, key: str, now: float) -> None:
        found = self._clients[client]
        del found.keys[key]
        if not found.keys:
            del self._clients[client]
            self._news.pop(client, None)
            self._left[client] = None
            self._soon_s = min(self._soon_s, now + _SOON_S)

    def published(self, key: str, size_bytes: int) -> None:
        """Once to the broker, whoever has subscribed there: lambda of equation 5 is the average of this."""
        self._rates.add(key, size_bytes)

    def dropped(self, key: str) -> None:
        """Nobody follows it here any more."""
        self._rates.forget(key)

    def anew(self) -> None:
        """The coordinator may not have heard us: everybody is told of at once."""
        self._round_s = -math.inf

    # What is told

    def wake_s(self) -> float:
        return min(self._round_s, self._soon_s, self._rates_s)

    def tick(self, now: float) -> list[AtHome]:
        if now >= self._round_s:
            return self._everybody(now)
        if now >= self._soon_s:
            return self._changes(now)
        if now >= self._rates_s:
            return self._rates_alone(now)
        return []

    # Within

    def _tell_of(self, client: str, now: float) -> None:
        if len(self._clients) > MOST_TOLD:
            return
        self._news[client] = None
        self._soon_s = min(self._soon_s, now + _SOON_S)

    def _everybody(self, now: float) -> list[AtHome]:
        self._round += 1
        told, users = min(len(self._clients), MOST_TOLD), self._users()
        homed = min(len(users), MOST_TOLD - told)
        self._round_s = now + max(ROUND_S, (told + homed) / MOST_TOLD_HZ)
        self._rates_s = now + ROUND_S if self._round_s > now + ROUND_S else math.inf
        self._told()
        pages = self._pages(islice(self._clients, told), now) or [_Page()]
        for client, user in islice(users.items(), homed):
            if pages[-1].size >= _MOST_BYTES:
                pages.append(_Page())
            pages[-1].add_user(client, user)
        return [page.written(self._broker, self._round, len(pages)) for page in pages]

    def _changes(self, now: float) -> list[AtHome]:
        news, left = list(self._news), list(self._left)
        self._told()
        return [*(page.written(self._broker, self._round, 0) for page in self._pages(news, now)), *self._gone(left)]

    def _rates_alone(self, now: float) -> list[AtHome]:
        """Also that we are there: who says nothing is forgotten with all its clients."""
        self._rates_s = now + ROUND_S
        rates = list(self._rates.look(now).items())
        pages = [tuple(rates[at : at + _MOST_RATES]) for at in range(0, len(rates), _MOST_RATES)] or [()]
        return [AtHome(self._broker, self._round, 0, page) for page in pages]

    def _told(self) -> None:
        self._news.clear()
        self._left.clear()
        self._soon_s = math.inf

    def _gone(self, left: list[str]) -> list[AtHome]:
        out, names, size = [], list[str](), 0
        for client in left:
            names.append(client)
            size += len(client.encode()) + _FIELD_BYTES
            if size > _MOST_BYTES:
                out.append(AtHome(self._broker, self._round, 0, left=tuple(names)))
                names, size = [], 0
        return [*out, AtHome(self._broker, self._round, 0, left=tuple(names))] if names else out

    def _pages(self, clients: Iterable[str], now: float) -> list[_Page]:
        rates, pages = self._rates.look(now), list[_Page]()
        for name in clients:
            client = self._clients[name]
            keys = list(client.keys)
            for at in range(0, len(keys), _MOST_KEYS):
                if not pages or pages[-1].size >= _MOST_BYTES:
                    pages.append(_Page())
                pages[-1].add(name, keys[at : at + _MOST_KEYS], client.near, rates)
        return pages


class _Page:
    """One message while it is written: each key is named once."""

    __slots__ = ("_homed", "_keys", "_numbers", "_residents", "_topics", "size")

    def __init__(self) -> None:
        self.size = 0
        self._keys: list[tuple[str, float]] = []
        self._numbers: dict[str, int] = {}
        self._residents: list[Resident] = []
        self._topics: dict[str, int] = {}
        self._homed: list[HomedClient] = []

    def add(self, client: str, keys: list[str], near: Near, rates: Mapping[str, float]) -> None:
        numbers = self._numbers
        for key in keys:
            if key not in numbers:
                numbers[key] = len(self._keys)
                self._keys.append((key, rates.get(key, 0.0)))
                self.size += len(key) + _FIELD_BYTES
        self._residents.append(Resident(client, tuple(map(numbers.__getitem__, keys)), near))
        self.size += len(client.encode()) + _FIELD_BYTES + _NUMBER_BYTES * len(keys)
        self.size += sum(len(broker.encode()) + _FIELD_BYTES for broker, _ in near)

    def add_user(self, client: str, user: TopicUser) -> None:
        publishes, subscribes = (tuple(map(self._topic, side)) for side in (user.publishes, user.subscribes))
        self._homed.append(HomedClient(client, publishes, subscribes, user.home, user.at))
        self.size += len(client.encode()) + len(user.home.encode()) + 2 * _FIELD_BYTES
        self.size += _NUMBER_BYTES * (len(publishes) + len(subscribes)) + 9 * len(user.at)

    def _topic(self, topic: str) -> int:
        if topic not in self._topics:
            self.size += len(topic.encode()) + _FIELD_BYTES
        return self._topics.setdefault(topic, len(self._topics))

    def written(self, broker: str, round_number: int, parts: int) -> AtHome:
        residents, homed = tuple(self._residents), tuple(self._homed)
        return AtHome(broker, round_number, parts, tuple(self._keys), residents, (), tuple(self._topics), homed)
