"""Who is at home at which broker, with which keys, as the agents said last, and how much each key is; and who uses
homed topics where.

A new leader knows nobody until they say so again. What a key's results are is the same everywhere: an agent that has
just begun to publish them has measured less than there is, so that the largest figure of the last minute counts.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from nearcast.control.followers import RATE_WINDOW_S, ROUND_S
from nearcast.coordinator.inhabitants import Inhabitant, Uses, inhabitants_of, uses_in
from nearcast.domain.homes import Homes
from nearcast.wire.channels import AtHome, Near

FRESH_S = 3 * ROUND_S
"""Who missed three rounds is not known to have the subscribers it had."""

_Keys = tuple[str, ...]


@dataclass(slots=True)
class _Told:
    """One round, complete when all its parts have come."""

    round: int
    left: int
    clients: dict[str, _Keys] = field(default_factory=dict)
    homed: list[Uses] = field(default_factory=list)


@dataclass(slots=True)
class _Broker:
    at_s: float
    whole: _Told | None = None
    coming: _Told | None = None
    news: dict[str, None] = field(default_factory=dict)  # who came before there was a whole round


class Residents:
    """`remember_s`: for so long one that is gone is not new when it comes again."""

    def __init__(self, remember_s: float) -> None:
        self._remember_s = remember_s
        self._brokers: dict[str, _Broker] = {}
        self._at: dict[str, dict[str, None]] = {}  # client -> brokers, in the order in which it came there
        self._near: dict[str, Near] = {}
        self._gone_s: dict[str, float] = {}
        self._rates: dict[str, tuple[float, float]] = {}  # key -> (bytes a second, when that was said)
        self._made: tuple[tuple[str, ...], Homes | None] | None = None  # for these brokers, as long as nothing changes
        self._homed: dict[str, Inhabitant] | None = None  # likewise

    def __len__(self) -> int:
        return len(self._at)

    # What comes in

    def heard(self, message: AtHome, now: float) -> list[str]:
        """The clients that are new. One that is there when an agent's first round is heard is not, unless it was told
        of as one who has just come.
        """
        self._made = None
        broker = self._brokers.setdefault(message.broker, _Broker(now))
        names = [key for key, _ in message.keys]
        self._rated(message, now)
        told = {each.client: tuple(dict.fromkeys(map(names.__getitem__, each.keys))) for each in message.residents}
        self._near |= {each.client: each.near for each in message.residents if each.near}
        broker.at_s = now
        if not message.parts:
            return self._changed(message.broker, broker, told, message.left, now)
        coming = broker.coming
        if coming is None or coming.round != message.round:
            coming = broker.coming = _Told(message.round, message.parts)
        _join(coming.clients, told)
        coming.homed += uses_in(message)
        coming.left -= 1
        return [] if coming.left else self._completed(message.broker, broker, coming, now)

    def forget(self, name: str, now: float) -> None:
        """Its agent is lost, or silent."""
        broker = self._brokers.pop(name, None)
        self._homed = None
        if broker is not None and broker.whole is not None:
            self._made = None
            for client in broker.whole.clients:
                self._leaves(client, name, now)

    def expire(self, now: float) -> None:
        for name in [name for name, each in self._brokers.items() if now >= each.at_s + FRESH_S]:
            self.forget(name, now)
        self._gone_s = {client: at_s for client, at_s in self._gone_s.items() if now < at_s + self._remember_s}
        # What is still said is renewed when it is older than the window.
        for key in [key for key, (_, at_s) in self._rates.items() if now >= at_s + 2 * RATE_WINDOW_S]:
            del self._rates[key]

    # What is known

    def reported(self) -> set[str]:
        """Brokers whose agents have said who is at home there."""
        return {name for name, each in self._brokers.items() if each.whole is not None}

    def at(self, client: str) -> Collection[str]:
        """The brokers where it follows something: two while it moves."""
        return self._at.get(client, {}).keys()

    def where(self, client: str) -> tuple[Collection[str], Collection[str]]:
        """The brokers where it is at home, and those whose agents can tell it something. Who is somewhere only because
        a topic is may have to go when that does: it is not at home yet.
        """
        found, at = self.inhabitants().get(client), self.at(client)
        if found is None:
            return at, at
        homes = found.homes if found.told else ("",)
        return dict.fromkeys((*at, *homes)), dict.fromkeys((*at, *found.through))

    def inhabitants(self) -> dict[str, Inhabitant]:
        """By client, who uses homed topics anywhere."""
        if self._homed is None:
            wholes = {name: each.whole for name, each in self._brokers.items()}
            self._homed = inhabitants_of({name: whole.homed for name, whole in wholes.items() if whole is not None})
        return self._homed

    def split(self) -> list[str]:
        """Clients that follow something at more than one broker."""
        return [client for client, at in self._at.items() if len(at) > 1]

    def at_home(self, broker: str) -> int:
        found = self._brokers.get(broker)
        return 0 if found is None or found.whole is None else len(found.whole.clients)

    def near(self, client: str) -> Near:
        """Empty where it has not said."""
        return self._near.get(client, ())

    def home_of(self, client: str) -> str:
        """Where it has most of its keys; of two with equally many, where it came last."""
        brokers = list(self._at[client])
        return max(reversed(brokers), key=lambda name: len(self._keys(name, client)))

    def homes(self, brokers: Sequence[str]) -> Homes | None:
        """Of those who are at home at one of these; None when nobody is."""
        wanted = tuple(brokers)
        if self._made is None or self._made[0] != wanted:
            self._made = wanted, self._built(wanted)
        return self._made[1]

    # Within

    def _rated(self, message: AtHome, now: float) -> None:
        for key, rate in message.keys:
            known, at_s = self._rates.get(key, (0.0, now))
            if rate >= known or now >= at_s + RATE_WINDOW_S:
                self._rates[key] = rate, now

    def _changed(
        self, name: str, broker: _Broker, told: dict[str, _Keys], left: Collection[str], now: float
    ) -> list[str]:
        if broker.whole is None:
            broker.news |= dict.fromkeys(told)
            return []
        _join(broker.whole.clients, told)
        new = [client for client in told if self._comes(client, name)]
        for client in left:
            if broker.whole.clients.pop(client, None) is not None:
                self._leaves(client, name, now)
        return new

    def _completed(self, name: str, broker: _Broker, told: _Told, now: float) -> list[str]:
        before, broker.whole, broker.coming = broker.whole, told, None
        self._homed = None
        new = [client for client in told.clients if self._comes(client, name)]
        if before is None:
            return [client for client in new if client in broker.news]
        for client in before.clients.keys() - told.clients.keys():
            self._leaves(client, name, now)
        return new

    def _comes(self, client: str, broker: str) -> bool:
        """Whether it is new."""
        new = client not in self._at and self._gone_s.pop(client, None) is None
        self._at.setdefault(client, {})[broker] = None
        return new

    def _leaves(self, client: str, broker: str, now: float) -> None:
        at = self._at.get(client, {})
        at.pop(broker, None)
        if not at:
            self._at.pop(client, None)
            self._near.pop(client, None)
            self._gone_s[client] = now

    def _keys(self, broker: str, client: str) -> _Keys:
        whole = self._brokers[broker].whole
        return () if whole is None else whole.clients.get(client, ())

    def _built(self, brokers: tuple[str, ...]) -> Homes | None:
        """By arrays: there may be a million subscriptions."""
        index = {name: number for number, name in enumerate(brokers)}
        home_of = {client: next(iter(at)) if len(at) == 1 else self.home_of(client) for client, at in self._at.items()}
        clients = sorted(client for client, home in home_of.items() if home in index)
        if not clients:
            return None
        kept = [self._all_keys(client) for client in clients]
        keys = tuple(sorted(set(chain.from_iterable(kept))))
        number = {key: at for at, key in enumerate(keys)}
        flat = np.fromiter((number[key] for key in chain.from_iterable(kept)), dtype=np.int64)
        first = np.concatenate(([0], np.cumsum([len(each) for each in kept]))).astype(np.int64)
        owner = np.repeat(np.arange(len(clients)), np.diff(first))
        return Homes.among(
            subscribers=tuple(clients),
            home=np.array([index[home_of[client]] for client in clients], dtype=np.int64),
            keys=keys,
            rate=np.array([self._rates.get(key, (0.0, 0.0))[0] for key in keys]),
            first=first,
            key=flat[np.lexsort((flat, owner))],
        )

    def _all_keys(self, client: str) -> Collection[str]:
        """Each once, wherever it has them."""
        at = self._at[client]
        if len(at) == 1:
            return self._keys(next(iter(at)), client)
        return dict.fromkeys(chain.from_iterable(self._keys(broker, client) for broker in at))


def _join(clients: dict[str, _Keys], told: dict[str, _Keys]) -> None:
    """Of one that is named again the keys are added."""
    for client, keys in told.items():
        known = clients.get(client)
        clients[client] = keys if known is None else tuple(dict.fromkeys((*known, *keys)))
