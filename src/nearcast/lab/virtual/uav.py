"""Swarms of drones in virtual time, at any rate."""

import random
from functools import partial

from nearcast.lab.experiment import Progress
from nearcast.lab.promised import Observed
from nearcast.lab.uav import LOOP, SIZE_BYTES, Flight, topics_of
from nearcast.lab.virtual.stage import Stage, loop_of
from nearcast.sim.deployment import SimClient
from nearcast.sim.loop import run_virtual

_WINDOW_S = 0.1


def fly(flight: Flight, seed: int, progress: Progress) -> Observed:
    return run_virtual(_fly(flight, random.Random(seed), progress), seed=seed)


async def _fly(flight: Flight, rng: random.Random, progress: Progress) -> Observed:
    stage = Stage(flight.brokers, flight.topics, _WINDOW_S, rng)
    promises = dict.fromkeys(flight.topics, flight.promise)
    await stage.set_up(lambda _one, _other: flight.sites_s, lambda _site: flight.cloud_s, loop_of(LOOP), promises)
    swarms = [await _start(stage, flight, swarm) for swarm in range(flight.swarms)]
    stage.begin(flight.run_s, progress)
    for swarm, (leader, *others) in enumerate(swarms):
        follow, sensor = topics_of(swarm)
        for drone, topic in ((leader, follow), *((drone, sensor) for drone in others)):
            stage.crew.start(stage.publish(drone, topic, flight.rate_hz, SIZE_BYTES), f"{topic} of a drone")
    for each in flight.crossings:
        await stage.until(each.at_s)
        for drone in swarms[each.swarm]:
            stage.place(drone.client.name, partial(flight.way_s, each.zone))
            drone.client.set_gateway(flight.brokers[each.zone])
    return await stage.observed()


async def _start(stage: Stage, flight: Flight, swarm: int) -> list[SimClient]:
    """The leader first."""
    zone = flight.starts[swarm]
    follow, sensor = topics_of(swarm)
    drones = []
    for number in range(flight.drones):
        name = f"drone{swarm}-{number}"
        stage.place(name, partial(flight.way_s, zone))
        drones.append(stage.fleet.start_client(name, gateway=flight.brokers[zone]))
        topic = follow if number else sensor
        await stage.listen(drones[-1], topic, topic)
    return drones
