"""The game of ePulsar's section 5.8.2: who hears whom in which city, how far cities are, and what came of it.

Every city has a broker and a game server. A player's avatar has a topic, on which the city's server publishes; servers
hear the avatars of their players' groups. The coordinator, the control bus and the store are in New York. A message
between two cities takes the whole time that the table has for them, as in the paper's study of placement: with half of
it 100 ms would be missed by nobody. From a server to its own city's broker it takes 5 ms.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nearcast.lab.workloads.groups import Joining, heard_by

BOUND_MS = 100.0
PROMISE = "p95:100ms"
LOOP_S = 5.0
SETTLE_S = 2.0  # what the loop gives clients to follow a move: until then it counts as under way
# A topic rests no longer than that after a move: who hears it changes every few seconds.
LOOP: Mapping[str, str | float] = {"policy": "epulsar", "every_s": LOOP_S, "rest_s": SETTLE_S}
RATE_HZ = 300.0
SIZE_BYTES = 998
SERVER_S, LAN_S = 0.005, 0.0005  # one way
CAPITAL = "New York"


@dataclass(frozen=True, slots=True)
class Game:
    """`city_of` every player; `rtt_ms` between cities. `rate_hz` is of every avatar."""

    cities: tuple[str, ...]
    rtt_ms: tuple[tuple[float, ...], ...]
    city_of: tuple[int, ...]
    joinings: tuple[Joining, ...]
    run_s: float
    rate_hz: float

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(f"b{number}" for number in range(1, len(self.cities) + 1))

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(map(topic_of, range(len(self.city_of))))

    @property
    def lines(self) -> tuple[str, ...]:
        """One for every avatar at every server that may hear it."""
        return tuple(line_of(player, city) for player in range(len(self.city_of)) for city in range(len(self.cities)))

    def players_in(self, city: int) -> list[int]:
        return [player for player, where in enumerate(self.city_of) if where == city]

    def way_s(self, city: int, broker: int) -> float:
        """From a game server to a broker."""
        return SERVER_S + self.rtt_ms[city][broker] / 1e3

    def between_s(self, one: int, other: int) -> float:
        """From one city's broker to another's."""
        return self.rtt_ms[one][other] / 1e3

    def wishes(self) -> Iterator[tuple[float, list[set[int]]]]:
        """Whenever somebody joined a group: when, and which avatars each city's server is to hear from then on."""
        group_of: dict[int, int] = {}
        players = [self.players_in(city) for city in range(len(self.cities))]
        for joining in self.joinings:
            group_of[joining.player] = joining.group
            if len(group_of) == len(self.city_of):  # at the beginning all come at once
                yield joining.at_s, [heard_by(each, group_of) for each in players]

    @property
    def capital(self) -> int:
        return self.cities.index(CAPITAL)


def topic_of(player: int) -> str:
    return f"avatar.{player}"


def line_in(topic: str, city: int) -> str:
    return f"{topic} in {city}"


def line_of(player: int, city: int) -> str:
    return line_in(topic_of(player), city)


def causes_s(game: Game) -> list[list[float]]:
    """For every avatar: when other cities came to hear it than before; the first is the beginning."""
    audience: dict[int, set[int]] = {}
    found: list[list[float]] = [[] for _ in game.city_of]
    for at_s, wanted in game.wishes():
        for player, times_s in enumerate(found):
            cities = {city for city, players in enumerate(wanted) if player in players}
            if audience.get(player) != cities:
                audience[player] = cities
                times_s.append(at_s)
    return found
