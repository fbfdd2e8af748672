"""The drones of ePulsar's section 5.8.1: what is flown, how far everything is from everything, and what came of it.

A zone has an edge site with a broker; the coordinator, the control bus and the store are in a cloud. A drone is
connected to the site of its zone, and reaches other zones' brokers from there. How far a drone is from that site is
ours: 7 ms, as over LTE. With it a message through another zone's broker takes 44 ms; without any it would take 30 ms,
which breaks no promise of 40 ms.

`Flight.scale` makes everything so many times as far, and the promise as many times as long: what programs and a machine
take on top then matters less.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nearcast.domain.slo import Slo
from nearcast.lab.workloads.swarms import Crossing

BOUND_MS = 40.0
LOOP_S = 5.0
SETTLE_S = 2.0  # what the loop gives clients to follow a move: until then it counts as under way
# A topic rests no longer than that after a move: two loop intervals are all there is to get a swarm's back.
LOOP: Mapping[str, str | float] = {"policy": "epulsar", "every_s": LOOP_S, "rest_s": SETTLE_S}
RATE_HZ = 200.0
SIZE_BYTES = 1024
ACCESS_S, SITES_S, LAN_S, CLOUD_S = 0.007, 0.015, 0.0005, 0.040  # one way


@dataclass(frozen=True, slots=True)
class Flight:
    """`rate_hz` is of every drone. Leaders are drone 0 of their swarm."""

    crossings: tuple[Crossing, ...]
    run_s: float
    rate_hz: float
    zones: int = 4
    swarms: int = 8
    drones: int = 8
    scale: float = 1.0

    @property
    def bound_ms(self) -> float:
        return BOUND_MS * self.scale

    @property
    def promise(self) -> Slo:
        return Slo.parse(f"p95:{self.bound_ms:g}ms")

    @property
    def sites_s(self) -> float:
        """From one zone's site to another's."""
        return SITES_S * self.scale

    @property
    def cloud_s(self) -> float:
        """From a zone's site to the control plane."""
        return CLOUD_S * self.scale

    def way_s(self, zone: int, broker: int) -> float:
        """From a drone in a zone to a broker."""
        return ACCESS_S * self.scale + (0.0 if zone == broker else self.sites_s)

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(f"b{number}" for number in range(1, self.zones + 1))

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(topic for swarm in range(self.swarms) for topic in topics_of(swarm))

    @property
    def starts(self) -> list[int]:
        """The zone in which each swarm begins."""
        first = {each.swarm: each.zone for each in reversed(self.crossings)}
        return [first[swarm] for swarm in range(self.swarms)]

    def causes_s(self, swarm: int) -> list[float]:
        """When its promises may come to be broken: at its start, and when it comes to another zone."""
        return [each.at_s for each in self.crossings if each.swarm == swarm]


def topics_of(swarm: int) -> tuple[str, str]:
    """From the leader to the others, and back."""
    return f"swarm.{swarm}.follow_leader", f"swarm.{swarm}.sensor_data"
