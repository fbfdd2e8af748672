"""Who uses the homed topics of one broker: what its agent tells the coordinator of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nearcast.control.followers import TopicUser
from nearcast.control.forwarder import Forwarder
from nearcast.domain.route import Strategy
from nearcast.domain.whereabouts import Spot


@dataclass(slots=True)
class _Uses:
    publishes: dict[str, None] = field(default_factory=dict)
    subscribes: dict[str, None] = field(default_factory=dict)
    home: str = ""


def homed_users(
    forwarders: Mapping[str, Forwarder], spot_of: Callable[[str], Spot | None] = lambda _client: None
) -> dict[str, TopicUser]:
    """By client, of the topics whose newest route is homed. `spot_of`: where a client said that it is."""
    found: dict[str, _Uses] = {}
    for topic, each in forwarders.items():
        if each.routes[each.newest].strategy is not Strategy.HOMED:
            continue
        for entry in each.clients.entries.values():
            uses = found.setdefault(entry.client, _Uses())
            (uses.publishes if entry.publisher else uses.subscribes)[topic] = None
            uses.home = entry.home or uses.home
    return {
        client: TopicUser(tuple(uses.publishes), tuple(uses.subscribes), uses.home, _flat(spot_of(client)))
        for client, uses in found.items()
    }


def _flat(spot: Spot | None) -> tuple[float, ...]:
    return () if spot is None else (*spot.vec, spot.height)
