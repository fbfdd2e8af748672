"""Players in groups (ePulsar, sections 5.1.2 and 5.8.2): who is in which, and when somebody goes to another.

Every player's avatar has a topic, which the game server of the player's city publishes on. The server hears the avatars
of all groups in which it has a player.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

STAY_S = (30.0, 60.0)


@dataclass(frozen=True, slots=True)
class Joining:
    """From `at_s` on the player is in `group`; the first of each is at 0."""

    at_s: float
    player: int
    group: int


def joinings(players: int, groups: int, until_s: float, rng: np.random.Generator) -> tuple[Joining, ...]:
    """Everybody begins in a group by chance, stays for a uniform time, and goes to another one by chance; by time."""
    found = []
    for player in range(players):
        at_s, group = 0.0, int(rng.integers(groups))
        while at_s < until_s:
            found.append(Joining(at_s, player, group))
            at_s += float(rng.uniform(*STAY_S))
            group = (group + int(rng.integers(1, groups))) % groups
    return tuple(sorted(found, key=lambda each: (each.at_s, each.player)))


def heard_by(city: Iterable[int], group_of: Mapping[int, int]) -> set[int]:
    """The avatars that a game server hears which has the players of a `city`."""
    mine = {group_of[player] for player in city}
    return {player for player, group in group_of.items() if group in mine}
