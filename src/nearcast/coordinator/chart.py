"""The leader's map of the brokers, drawn anew now and then from what agents told of each other."""

import math

from nearcast.control.whereabouts import position_of
from nearcast.coordinator.places import BrokerPlaces
from nearcast.coords.chart import charted
from nearcast.wire.places import Position

REDRAW_S = 10.0
REMEMBERED_S = 3600.0
"""An agent measures eight others at a time, and one of them another one every minute."""


class Chart:
    def __init__(self, places: BrokerPlaces) -> None:
        self._places = places
        self._measured: dict[tuple[str, str], tuple[float, float]] = {}  # the round trip, and when it was told
        self._at: dict[str, Position] = {}
        self._drawn_s = -math.inf

    def of(self, broker: str, now: float) -> Position | None:
        """Where it is; None where too little is known of it."""
        if now >= self._drawn_s + REDRAW_S:
            self._drawn_s = now
            self._draw(now)
        return self._at.get(broker)

    def _draw(self, now: float) -> None:
        places = self._places.brokers(now)
        for place in places:
            for peer, rtt_s in place.rtts_s:
                self._measured[place.broker, peer] = rtt_s, now
        self._measured = {pair: each for pair, each in self._measured.items() if now < each[1] + REMEMBERED_S}
        drawn = charted(
            {place.broker: place.at for place in places}, {pair: rtt_s for pair, (rtt_s, _) in self._measured.items()}
        )
        self._at = {name: position_of(each) for name, each in drawn.items()}
