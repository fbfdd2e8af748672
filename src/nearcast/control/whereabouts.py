"""Where one process is in the space of network coordinates, and what the fleet's time is: whom it probes, and what it
makes of the answers (ePulsar, section 3.2 and "Integrating NC P2P System").

An agent probes other brokers' agents. A client that stays where it is probes those of the brokers it uses and a few
others, and has a coordinate of its own. One that moves takes its gateway's, with the way to it added to the height.
Events go in, messages come out; time and chance are arguments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nearcast.control.fleet_time import FleetTime, Reading, compared
from nearcast.coords.coordinate import HEIGHT_MIN_S, Coordinate
from nearcast.coords.vivaldi import Vivaldi, forgotten, updated
from nearcast.domain.errors import BadSample
from nearcast.domain.whereabouts import Spot
from nearcast.wire.places import MOST_PEERS, MOST_RTTS, Echo, Located, Position, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LATE_S = 10.0  # who has not answered by then does not
FRESH_S = 60.0  # how long what was measured of a broker holds
TURN_S = 60.0  # after which one of the brokers that are probed is exchanged for another
_LAST = 3  # of so many measurements the least counts: whoever is late adds to a round trip, and nothing takes from it
_GOSSIPED = 3  # brokers that an echo names
_LOOK_S = 1.0  # how often is looked whether other brokers are in use
_LEAST_CHANGE_S = 0.002
_LEAST_CHANGE = 0.2  # of the distance that was told


@dataclass(frozen=True, slots=True)
class Pace:
    """How often is probed: at first after `first_s`, then after `growth` times as long, up to every `every_s`.

    In each round the agents of all brokers in use are probed, and one of at most `most` others, in turn. Clients say
    where they are every `tell_s`.
    """

    every_s: float
    first_s: float
    growth: float
    most: int
    tell_s: float = 5.0

    def after_s(self, rounds: int) -> float:
        """Until the next round, after so many."""
        return min(self.every_s, self.first_s * math.pow(self.growth, min(rounds, 100)))


AGENT_PACE = Pace(every_s=1.0, first_s=0.2, growth=1.03, most=8)
CLIENT_PACE = Pace(every_s=5.0, first_s=0.25, growth=1.3, most=4)


@dataclass(slots=True)
class _Peer:
    """What is known of one broker's agent. `coordinate` and `rtts_s` are those of its last answers; `onward_s` is how
    far others are from it, where it was asked.
    """

    known_s: float
    answered_s: float | None = None
    coordinate: Coordinate | None = None
    rtts_s: tuple[float, ...] = ()
    onward_s: tuple[tuple[str, float], ...] = ()

    def is_fresh(self, now: float) -> bool:
        return self.answered_s is not None and now < self.answered_s + FRESH_S


class Whereabouts:
    """`name` is whom echoes go to; `broker` the one that an agent is beside, which it does not probe."""

    def __init__(
        self,
        name: str,
        pace: Pace,
        time: FleetTime,
        chance: Callable[[], float],
        *,
        broker: str = "",
        gateway: str = "",
    ) -> None:
        self.name = name
        self.time = time
        self.gateway = gateway
        self.bad_samples = 0
        self._pace = pace
        self._chance = chance
        self._broker = broker
        self._vivaldi = Vivaldi()
        self._charted: tuple[Coordinate, float] | None = None  # where the leader's map has us, and since when
        self._access_s: float | None = None  # the way to the gateway, or to the one before
        self._ring: tuple[str, ...] = ()
        self._used: tuple[str, ...] = ()
        self._peers: dict[str, _Peer] = {}
        self._others: list[str] = []  # that are probed in turn
        self._turn_s = -1.0
        self._pending: dict[int, tuple[str, float]] = {}
        self._number = 0
        self._rounds = 0
        self._round_s: float | None = None
        self._begun_s: float | None = None
        self._tell_s: float | None = None
        self._told: dict[str, Located] = {}

    # What is known

    def coordinate(self) -> Coordinate | None:
        """None before anything was measured."""
        if self._charted is not None:
            return self._charted[0]
        if not self.gateway:
            return self._vivaldi.coordinate if self._vivaldi.recent else None
        peer = self._peers.get(self.gateway)
        if peer is None or peer.coordinate is None or self._access_s is None:
            return None
        return replace(peer.coordinate, height=peer.coordinate.height + self._access_s)

    def rtt_s(self, broker: str, now: float) -> float | None:
        """As measured lately."""
        peer = self._peers.get(broker)
        return min(peer.rtts_s) if peer is not None and peer.rtts_s and peer.is_fresh(now) else None

    def rtts_s(self, now: float) -> tuple[tuple[str, float], ...]:
        found = ((broker, self.rtt_s(broker, now)) for broker in sorted(self._peers))
        return tuple((broker, rtt_s) for broker, rtt_s in found if rtt_s is not None)

    def nearest_s(self, now: float) -> tuple[tuple[str, float], ...]:
        """The brokers that are measured to be near, and how far they are. One that moves reaches others through its
        gateway, whose agent measured the rest of the way.
        """
        found: dict[str, float] = {}
        access_s = self.rtt_s(self.gateway, now)
        if access_s is not None:
            found = {broker: access_s + rtt_s for broker, rtt_s in self._peers[self.gateway].onward_s}
        found |= self.rtts_s(now)
        return tuple(sorted(found.items(), key=lambda each: (each[1], each[0]))[:MOST_RTTS])

    def surveyed(self, now: float) -> bool:
        """Whether all brokers that are probed have been measured, or have had the time to answer."""
        if self._begun_s is None:
            return False
        measured = (self.rtt_s(broker, now) is not None for broker in (*self._used, *self.linked))
        return now >= self._begun_s + LATE_S or all(measured)

    @property
    def linked(self) -> tuple[str, ...]:
        """Brokers that are probed without being in use: their links serve nothing else."""
        gateway = (self.gateway,) if self.gateway and self.gateway not in self._used else ()
        return (*gateway, *(each for each in self._others if each != self.gateway))

    # What comes in

    def ring(self, brokers: tuple[str, ...]) -> None:
        self._ring = brokers

    def use(self, brokers: Iterable[str], now: float) -> None:
        """The brokers in use: a new one is probed and told at once."""
        used = tuple(dict.fromkeys(brokers))
        if used == self._used:
            return
        if any(broker not in self._used for broker in used):
            self._round_s = now
        self._used = used
        self._told = {broker: told for broker, told in self._told.items() if broker in used}
        self._turn_s = min(self._turn_s, now)

    def set_gateway(self, broker: str, now: float) -> None:
        """The client is elsewhere: what it measured from where it was no longer holds, nor what is still under way."""
        self.gateway = broker
        self._pending.clear()
        for peer in self._peers.values():
            peer.rtts_s = ()
        self._others = []
        self._rounds = 0
        self._round_s = self._tell_s = now

    def charted(self, coordinate: Coordinate, now: float) -> None:
        """By all that was measured in the fleet, which is more than we know. Our own coordinate goes on beside it, with
        peers on the same map: when nobody says any more where we are, it is not far from where we were.
        """
        if coordinate.is_valid and len(coordinate.vec) == len(self._vivaldi.coordinate.vec):
            self._charted = coordinate, now
        else:
            self.bad_samples += 1

    def reached(self, now: float) -> None:
        """A broker that could not be asked before can be now."""
        self._round_s = now

    def echo(self, message: Echo, now: float) -> bool:
        """Whether it was one that we wait for."""
        broker, sent_s = self._pending.pop(message.number, ("", 0.0))
        if broker != message.broker:
            return False
        rtt_s, ahead_s = compared(sent_s, message.received_s, message.answered_s, now)
        coordinate = coordinate_of(message.at)
        try:
            # Also where the coordinate is another's: what cannot be is found out in one place.
            moved = updated(self._vivaldi, broker, coordinate, rtt_s, self._chance)
        except BadSample:
            self.bad_samples += 1
            return True
        if not self.gateway:
            self._vivaldi = moved
        peer = self._peers.setdefault(broker, _Peer(now))
        peer.answered_s, peer.coordinate, peer.rtts_s = now, coordinate, (*peer.rtts_s, rtt_s)[-_LAST:]
        peer.onward_s = message.rtts_s
        if broker == self.gateway:
            self._access_s = min(peer.rtts_s)
        if message.uncertainty_s is not None:
            half_s, told_s = rtt_s / 2.0, message.uncertainty_s
            near_s = half_s + message.wander_s
            self.time.take(Reading(now, ahead_s, told_s + half_s, near_s, broker, message.term))
        for each in message.peers:
            if each not in self._peers and each not in self._ring and each != self._broker:
                self._peers[each] = _Peer(now)
                self._turn_s = now
        return True

    # What goes out

    def wake_s(self, now: float) -> float:
        """Not later than in a second: other brokers may be in use by then."""
        tell_s = self._tell_s if self.coordinate() is not None else None
        return max(now, min(now + _LOOK_S, *(each for each in (self._round_s, tell_s) if each is not None)))

    def probes(self, now: float) -> list[tuple[str, Probe]]:
        """What is to be asked now, and of the agent of which broker."""
        if self._round_s is not None and now < self._round_s:
            return []
        self._rounds += 1
        self._begun_s = now if self._begun_s is None else self._begun_s
        self._round_s = now + self._pace.after_s(self._rounds - 1)
        for number in [number for number, (_, sent_s) in self._pending.items() if now >= sent_s + LATE_S]:
            del self._pending[number]
        if self._charted is not None and now >= self._charted[1] + FRESH_S:
            self._charted = None
        self._take_turns(now)
        asked = [broker for broker in (self.gateway, *self._used) if broker]
        if self._others:
            asked.append(self._others[self._rounds % len(self._others)])
        return [(broker, self._probe(broker, now)) for broker in dict.fromkeys(asked)]

    def tellings(self, now: float) -> list[tuple[str, Located]]:
        """What the agents of the brokers in use are to be told now: all when it is time, else who should know."""
        if self.coordinate() is None:
            return []
        due = self._tell_s is None or now >= self._tell_s
        if due:
            self._tell_s = now + self._pace.tell_s
        nearest_s = self.nearest_s(now)
        out = [(broker, self._located(broker, nearest_s, now)) for broker in self._used]
        out = [(broker, located) for broker, located in out if due or self._is_news(broker, located)]
        self._told.update(out)
        return out

    def gossip(self, asker: str, now: float) -> tuple[str, ...]:
        """A few brokers that answer, as far as we know, or are in the ring: by chance, not the asker's own."""
        answering = [broker for broker, peer in self._peers.items() if peer.is_fresh(now)]
        known = [each for each in dict.fromkeys((*self._ring, *answering)) if each not in {asker, self._broker}]
        return tuple(self._drawn(known, min(_GOSSIPED, MOST_PEERS)))

    # Within

    def _probe(self, broker: str, now: float) -> Probe:
        self._number += 1
        self._pending[self._number] = (broker, now)
        return Probe(self.name, self._number, passing=broker == self.gateway)

    def _take_turns(self, now: float) -> None:
        """Some that are near, and some far ones, of which one is exchanged now and then; all, where they are few."""
        if now < self._turn_s and self._others:
            return
        self._turn_s = now + TURN_S
        for broker in [each for each, peer in self._peers.items() if self._is_gone(each, peer, now)]:
            del self._peers[broker]
            self._vivaldi = forgotten(self._vivaldi, broker)
        if self.gateway:
            self._others = []  # whose coordinate is another's needs no further peers
            return
        known = dict.fromkeys((*self._ring, *self._peers))
        others = [each for each in known if each != self._broker and each not in self._used]
        most = self._pace.most
        if len(others) <= most:
            self._others = others
            return
        near = sorted((each for each in others if self._peers.get(each, _Peer(now)).is_fresh(now)), key=self._predicted)
        near = near[: most // 2]
        far = [each for each in self._others if each in others and each not in near]
        far = far[max(0, len(far) + 1 - (most - len(near))) :]
        far += self._drawn(
            [each for each in others if each not in near and each not in far], most - len(near) - len(far)
        )
        self._others = [*near, *far]

    def _is_gone(self, broker: str, peer: _Peer, now: float) -> bool:
        heard_s = peer.known_s if peer.answered_s is None else peer.answered_s
        return broker not in self._ring and broker not in self._used and now >= heard_s + FRESH_S

    def _predicted(self, broker: str) -> tuple[float, str]:
        coordinate = self._peers[broker].coordinate
        assert coordinate is not None
        return self._vivaldi.coordinate.distance_s(coordinate), broker

    def _drawn(self, brokers: list[str], count: int) -> list[str]:
        left = list(brokers)
        return [left.pop(int(self._chance() * len(left))) for _ in range(min(count, len(left)))]

    def _located(self, broker: str, nearest_s: tuple[tuple[str, float], ...], now: float) -> Located:
        coordinate, surest = self.coordinate(), self.time.surest
        assert coordinate is not None
        at, rtt_s = position_of(coordinate), self.rtt_s(broker, now)
        others_s = tuple(each for each in nearest_s if each[0] != broker)
        if surest is None:
            return Located(self.name, at, rtt_s, rtts_s=others_s)
        aged_s = surest.aged_s(now)
        clock = surest.uncertainty_s + aged_s, surest.via, surest.near_s + aged_s
        return Located(self.name, at, rtt_s, *clock, others_s)

    def _is_news(self, broker: str, located: Located) -> bool:
        """Whether the agent takes us to be somewhere else, or our clock to be worse than it is."""
        told = self._told.get(broker)
        if told is None or (told.clock_uncertainty_s is None) != (located.clock_uncertainty_s is None):
            return True
        if bool(told.rtts_s) != bool(located.rtts_s):
            return True
        before, at = coordinate_of(told.at), coordinate_of(located.at)
        peer = self._peers.get(broker)
        there = at if peer is None or peer.coordinate is None else peer.coordinate
        was_s = before.distance_s(there) if told.rtt_s is None else told.rtt_s
        is_s = at.distance_s(there) if located.rtt_s is None else located.rtt_s
        apart_s = before.raw_distance_s(at) - before.height - at.height + abs(before.height - at.height)
        return max(abs(is_s - was_s), apart_s) > max(_LEAST_CHANGE_S, _LEAST_CHANGE * was_s)


def coordinate_of(position: Position) -> Coordinate:
    return Coordinate(position.vec, position.height, position.adjustment, position.error)


def position_of(coordinate: Coordinate) -> Position:
    return Position(coordinate.vec, coordinate.height, coordinate.adjustment, coordinate.error)


def spot_of(coordinate: Coordinate) -> Spot:
    """With what the space could not express as part of the height: distances are the predicted round-trip times."""
    return Spot(coordinate.vec, max(HEIGHT_MIN_S, coordinate.height + coordinate.adjustment))
