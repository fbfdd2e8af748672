"""The clients of homed topics, from what the agents of all brokers say of them; and the area that RELOC sees of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nearcast.domain.area import NOWHERE, Area
from nearcast.domain.places import Floats, Spots
from nearcast.domain.route import Route
from nearcast.domain.snapshot import Snapshot
from nearcast.wire.channels import AtHome, HomedClient

_ONE_WAY = 0.5  # coordinates tell round trips


@dataclass(frozen=True, slots=True)
class Inhabitant:
    """One client. `homes`: where it says that it is at home, several while it goes from one to another; or, when it was
    not `told`, where it is. `through`: the brokers whose agents can tell it something.
    """

    told: bool
    homes: tuple[str, ...]
    through: tuple[str, ...]
    publishes: frozenset[str]
    subscribes: frozenset[str]
    at: tuple[float, ...]

    @property
    def topics(self) -> frozenset[str]:
        return self.publishes | self.subscribes


Uses = tuple[HomedClient, frozenset[str], frozenset[str]]
"""A client as one agent tells of it, the topics that it publishes there, and those that it subscribes to."""


def uses_in(message: AtHome) -> list[Uses]:
    topic = message.topics.__getitem__
    return [
        (each, frozenset(map(topic, each.publishes)), frozenset(map(topic, each.subscribes))) for each in message.homed
    ]


def inhabitants_of(told: Mapping[str, Iterable[Uses]]) -> dict[str, Inhabitant]:
    """By client, from what the agent of each broker says."""
    found: dict[str, list[tuple[str, *Uses]]] = {}
    for broker, clients in sorted(told.items()):
        for uses in clients:
            found.setdefault(uses[0].client, []).append((broker, *uses))
    return {client: _joined(uses) for client, uses in found.items()}


def _joined(uses: Sequence[tuple[str, *Uses]]) -> Inhabitant:
    said = [each.home for _, each, _, _ in uses if each.home]
    # Who is not told where its home is hears a topic at one broker, and publishes another perhaps elsewhere.
    here = [broker for broker, _, _, subscribes in uses if subscribes] or [broker for broker, *_ in uses]
    homes = tuple(sorted(set(said or here)))
    return Inhabitant(
        bool(said),
        homes,
        tuple(broker for broker, *_ in uses),
        frozenset().union(*(publishes for _, _, publishes, _ in uses)),
        frozenset().union(*(subscribes for *_, subscribes in uses)),
        next((each.at for _, each, _, _ in uses if each.at), ()),
    )


def area_of(seen: Snapshot, clients: Mapping[str, Inhabitant], routes: Mapping[str, Route]) -> Area | None:
    """Of those who have said where they are; None where nobody has, or no broker."""
    if seen.places is None:
        return None
    servers = seen.places.brokers
    topics = {name: number for number, name in enumerate(seen.topics)}
    located = sorted(
        (name, each)
        for name, each in clients.items()
        if len(each.at) == servers.vec.shape[1] + 1 and topics.keys() >= each.topics
    )
    if not located:
        return None
    brokers = {name: number for number, name in enumerate(seen.brokers)}
    rows = [
        (owner, topics[topic], topic in each.publishes, topic in each.subscribes)
        for owner, (_, each) in enumerate(located)
        for topic in sorted(each.topics)
    ]
    owner, topic, publishes, subscribes = (np.array(column) for column in zip(*rows, strict=True))
    at: Floats = np.array([each.at for _, each in located]) * _ONE_WAY
    return Area(
        servers=servers,
        storage=np.full(len(brokers), np.inf),
        compute=np.full(len(brokers), np.inf),
        cloud_s=0.0,
        clients=tuple(name for name, _ in located),
        at=Spots(at[:, :-1], at[:, -1]),
        home=np.array([_home(each, brokers) for _, each in located], dtype=np.int64),
        first=np.searchsorted(owner, np.arange(len(located) + 1)).astype(np.int64),
        topic=topic.astype(np.int64),
        publishes=publishes.astype(np.bool_),
        subscribes=subscribes.astype(np.bool_),
        spool=np.array([_spool(routes.get(name)) for name in seen.topics]),
    )


def unsettled(clients: Iterable[Inhabitant], routes: Mapping[str, Route]) -> set[str]:
    """Homed topics that are left on their brokers: homes of some of their clients are not known to the policy, which
    sees nobody who has not said where it is, and no cloud that an operator has some homes delegate to.
    """
    lost = {topic for each in clients if not each.at for topic in each.topics}
    return lost | {topic for topic, route in routes.items() if route.delegation is not None}


def _home(client: Inhabitant, brokers: Mapping[str, int]) -> int:
    """Who is at several brokers since nobody told it where its home is has none."""
    return brokers.get(client.homes[0], NOWHERE) if len(client.homes) == 1 else NOWHERE


def _spool(route: Route | None) -> float:
    return 0.0 if route is None or route.processor is None else float(route.processor.spool)
