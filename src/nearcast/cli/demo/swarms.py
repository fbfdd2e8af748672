"""The drones of the demo: real clients whose ways to all brokers change when their swarm comes to another zone."""

import asyncio
import random
import time
from collections.abc import Callable

from nearcast.cli.demo.tally import TopicTally
from nearcast.client import Client, open_client
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.fleet.local import LocalSpec
from nearcast.fleet.shape import Shape
from nearcast.fleet.wan_main import WanControl
from nearcast.lab.uav import Flight, topics_of
from nearcast.lab.workloads.swarms import Crossing
from nearcast.sim.recorder import Recorder
from nearcast.transport.config import Config
from nearcast.transport.crew import Crew

ZONES, SWARMS, DRONES = 3, 4, 3
RATE_HZ = 10.0
_SIZE_BYTES = 200
_FIRST_S, _EVERY_S = 25.0, 16.0
_FOREVER_S = 12 * 3600.0


def demo_flight(seconds: float | None, seed: int) -> Flight:
    """Swarms begin spread over the zones; every few seconds another one comes to another zone."""
    rng = random.Random(seed)
    zone = [swarm % ZONES for swarm in range(SWARMS)]
    crossings = [Crossing(0.0, swarm, at) for swarm, at in enumerate(zone)]
    whole_s = seconds or _FOREVER_S
    turn: list[int] = []
    for number in range(max(0, int((whole_s - _FIRST_S) // _EVERY_S) + 1)):
        turn = turn or rng.sample(range(SWARMS), SWARMS)
        swarm = turn.pop()
        zone[swarm] = (zone[swarm] + 1 + rng.randrange(ZONES - 1)) % ZONES
        crossings.append(Crossing(_FIRST_S + number * _EVERY_S, swarm, zone[swarm]))
    return Flight(tuple(crossings), whole_s, RATE_HZ, ZONES, SWARMS, DRONES)


class Swarms:
    """`crossed(swarm, zone)` and `told` are for whoever shows it."""

    def __init__(
        self,
        flight: Flight,
        fleet: LocalSpec,
        recorder: Recorder,
        tallies: dict[str, TopicTally],
        *,
        crossed: Callable[[int, int], None],
        told: Callable[[Gap | Discontinuity], None],
    ) -> None:
        self.flight = flight
        self._fleet = fleet
        self._recorder = recorder
        self._tallies = tallies
        self._crossed = crossed
        self._told = told
        self._crew = Crew()
        self._drones: dict[int, list[Client]] = {}
        self._publishing = True

    async def take_off(self, config: Config, wan: WanControl) -> None:
        """Returns when all listen; they publish from then on, and cross by the flight's plan."""
        brokers, starts = self.flight.brokers, self.flight.starts
        for swarm in range(self.flight.swarms):
            self._drones[swarm] = leader, *others = [
                open_client(
                    config, name=f"drone{swarm}-{number}", site=self._site(swarm), gateway=brokers[starts[swarm]]
                )
                for number in range(self.flight.drones)
            ]
            follow, sensor = topics_of(swarm)
            await asyncio.gather(self._listen(leader, sensor), *(self._listen(each, follow) for each in others))
            for drone, topic in ((leader, follow), *((each, sensor) for each in others)):
                self._crew.start(self._publish(drone, topic), f"{drone.name} publishes")
        self._crew.start(self._fly(wan), "the flight")

    async def rest(self) -> None:
        """Nobody publishes any more."""
        self._publishing = False

    async def land(self) -> None:
        await asyncio.gather(*(each.close() for swarm in self._drones.values() for each in swarm))
        await self._crew.close()

    def _site(self, swarm: int) -> str:
        return self._fleet.site(self.flight.zones + swarm)

    async def _listen(self, client: Client, topic: str) -> None:
        tally = self._tallies[topic]

        def took(number: int, message: Message) -> None:
            late_ms = (client.time_ns() - message.sent_ns) / 1e6
            tally.took(number, message.publisher, message.seq, late_ms)

        await self._recorder.subscribe(client, topic, also=took, also_report=self._told)

    async def _publish(self, client: Client, topic: str) -> None:
        due_s = time.monotonic()
        while self._publishing:
            due_s += 1 / self.flight.rate_hz
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            await self._recorder.publish(client, topic, bytes(_SIZE_BYTES))
            self._tallies[topic].published += 1

    async def _fly(self, wan: WanControl) -> None:
        begun_s = time.monotonic()
        for each in self.flight.crossings:
            if each.at_s == 0.0:
                continue
            await asyncio.sleep(max(0.0, begun_s + each.at_s - time.monotonic()))
            for number, broker in enumerate(self.flight.brokers):
                await wan.shape(self._site(each.swarm), broker, Shape(self.flight.way_s(each.zone, number)))
            for drone in self._drones[each.swarm]:
                drone.set_gateway(self.flight.brokers[each.zone])
            self._crossed(each.swarm, each.zone)
