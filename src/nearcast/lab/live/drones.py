"""Drones as real clients, some swarms in one process; see `actors`.

A swarm that comes to another zone has its ways to all brokers changed, and names the zone's broker as its gateway.
"""

import asyncio
import sys
from pathlib import Path

import msgspec

from nearcast.client import Client, open_client
from nearcast.fleet.shape import Shape
from nearcast.fleet.wan_main import WanControl
from nearcast.lab.live.actors import Actors, ActorsSpec
from nearcast.lab.uav import SIZE_BYTES, Flight, topics_of
from nearcast.transport.process import run_until_stopped


class DronesSpec(ActorsSpec, frozen=True):
    """This process has `swarms`; `sites[i]` is where swarm i's ways begin, which `wan` takes orders about."""

    wan: str
    flight: Flight
    swarms: tuple[int, ...]
    sites: tuple[str, ...]


class Drones(Actors):
    def __init__(self, spec: DronesSpec) -> None:
        super().__init__(spec, spec.flight.run_s)
        self._flight = spec.flight
        self._mine = spec.swarms
        self._sites = spec.sites
        self._wan = WanControl(spec.wan)
        self._swarms: dict[int, list[Client]] = {}

    async def prepare(self) -> None:
        brokers, start = list(self.config.brokers), self._flight.starts
        for swarm in self._mine:
            names = [f"drone{swarm}-{number}" for number in range(self._flight.drones)]
            self._swarms[swarm] = leader, *others = [
                open_client(self.config, name=name, site=self._sites[swarm], gateway=brokers[start[swarm]])
                for name in names
            ]
            self.clients += self._swarms[swarm]
            follow, sensor = topics_of(swarm)
            await asyncio.gather(self.listen(leader, sensor), *(self.listen(drone, follow) for drone in others))

    async def act(self) -> None:
        for swarm, (leader, *others) in self._swarms.items():
            follow, sensor = topics_of(swarm)
            for drone, topic in ((leader, follow), *((drone, sensor) for drone in others)):
                self.crew.start(self.publish(drone, topic, self._flight.rate_hz, SIZE_BYTES), f"{drone.name} publishes")
        for each in self._flight.crossings:
            if each.swarm in self._swarms:
                await self.until(each.at_s)
                await self._enter(each.swarm, each.zone)

    async def _enter(self, swarm: int, zone: int) -> None:
        brokers = list(self.config.brokers)
        for number, broker in enumerate(brokers):
            await self._wan.shape(self._sites[swarm], broker, Shape(self._flight.way_s(zone, number)))
        for drone in self._swarms[swarm]:
            drone.set_gateway(brokers[zone])


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=DronesSpec)
    run_until_stopped(lambda stopped: Drones(spec).run(stopped))


if __name__ == "__main__":
    main()
