"""Swarms of drones on real servers: a broker a zone, a control plane in the cloud, and ways that change under way."""

from functools import partial
from pathlib import Path

import msgspec

from nearcast.fleet.local import WAN_SOCKET, LocalSpec
from nearcast.lab.experiment import Progress
from nearcast.lab.live import drones
from nearcast.lab.live.actors import ActorsSpec
from nearcast.lab.live.drones import DronesSpec
from nearcast.lab.live.stage import Scenario, perform
from nearcast.lab.promised import Observed
from nearcast.lab.uav import LAN_S, LOOP, Flight

_PARTS = 2  # processes that share the swarms


def fly(flight: Flight, kind: str, seed: int, progress: Progress) -> Observed:
    fleet = fleet_of(flight, kind)
    parts = [partial(_part, flight, fleet, tuple(range(part, flight.swarms, _PARTS))) for part in range(_PARTS)]
    promises = dict.fromkeys(flight.topics, flight.promise)
    return perform(
        Scenario(fleet, promises, drones.__name__, parts, flight.run_s, flight.topics, _line), seed, progress
    )


def fleet_of(flight: Flight, kind: str) -> LocalSpec:
    """A site for every zone, and behind them one for every swarm, as far from all zones as where it begins."""
    zones = range(flight.zones)
    sites = tuple(tuple(LAN_S if zone == broker else flight.sites_s for broker in zones) for zone in zones)
    swarms = tuple(tuple(flight.way_s(start, broker) for broker in zones) for start in flight.starts)
    return LocalSpec(
        sites=flight.zones,
        kind=kind,
        coordinators=1,
        delays_s=sites + swarms,
        bus_s=flight.cloud_s,
        rebalance=dict(LOOP),
    )


def _line(topic: str, _part: int) -> str:
    return topic


def _part(flight: Flight, fleet: LocalSpec, swarms: tuple[int, ...], common: ActorsSpec, folder: Path) -> DronesSpec:
    sites = tuple(fleet.site(flight.zones + swarm) for swarm in range(flight.swarms))
    return DronesSpec(
        **msgspec.structs.asdict(common), wan=str(folder / WAN_SOCKET), flight=flight, swarms=swarms, sites=sites
    )
