"""The state of a deployment as one look shows it: the leader's word, and every server's own answer."""

import asyncio
from dataclasses import dataclass

from nearcast.cli.connect import operator_of
from nearcast.cli.fleet import as_it_is
from nearcast.cli.loads import BrokerLoad, Loads, broker_load, loads_of
from nearcast.cli.places import places_of
from nearcast.cli.reach import round_trips
from nearcast.domain.errors import LeaseLost, LinkError
from nearcast.domain.whereabouts import BrokerPlace
from nearcast.transport.config import Config
from nearcast.wire.control import Status


@dataclass(frozen=True, slots=True)
class BrokerState:
    """`agent`: "present", "lost", or "unknown" when nobody leads who could say."""

    name: str
    kind: str
    url: str
    site: str
    up: bool
    rtt_ms: float | None
    error: str | None
    agent: str
    agent_silent_s: float | None
    agent_reads: int | None  # the newest protocol version
    load: BrokerLoad | None  # None when its agent has not reported
    presence: str | None  # joining, present, draining or leaving; None when nobody leads who could say
    clock_offset_ms: float | None  # to be added to its agent's wall clock for the fleet's time; None: not known
    clock_uncertainty_ms: float | None


@dataclass(frozen=True, slots=True)
class State:
    """`leader` None: `trouble` says why, and nothing moves; traffic goes on with the last plan."""

    leader: Status | None
    bus_up: bool
    trouble: str | None
    brokers: tuple[BrokerState, ...]

    @property
    def well(self) -> bool:
        return self.leader is not None and all(each.up and each.agent == "present" for each in self.brokers)


async def look(config: Config, site: str = "") -> State:
    leader, loads, bus_up, trouble = await _ask_leader(config)
    config = as_it_is(config, leader)
    places = await places_of(config) if leader is not None else {}
    asked = await asyncio.gather(*(round_trips(config, site, broker, 1) for broker in config.brokers))
    found = zip(config.brokers, asked, strict=True)
    brokers = tuple(_broker(config, name, trips, leader, loads, places.get(name)) for name, trips in found)
    return State(leader, bus_up, trouble, brokers)


async def _ask_leader(config: Config) -> tuple[Status | None, Loads, bool, str | None]:
    try:
        async with asyncio.timeout(10), operator_of(config) as operator:
            status = await operator.status()
            return status, await loads_of(config, operator, status), True, None
    except LeaseLost as error:
        return None, {}, True, str(error)
    except (LinkError, TimeoutError) as error:
        return None, {}, False, str(error) or "no answer within 10 s"


def _broker(  # noqa: PLR0917  # private, and called in one place
    config: Config,
    name: str,
    trips: list[float] | str,
    leader: Status | None,
    loads: Loads,
    place: BrokerPlace | None,
) -> BrokerState:
    at = config.brokers[name]
    error = trips if isinstance(trips, str) else None
    rtt_ms = None if isinstance(trips, str) else round(trips[0] * 1e3, 3)
    agent, silent_s, reads = "unknown", None, None
    presence = None
    if leader is not None:
        presence = next((each.state.value for each in leader.brokers if each.name == name), None)
        heard = {each.broker: each for each in leader.agents}.get(name)
        agent = "present" if heard is not None and heard.present else "lost"
        if heard is not None:
            silent_s, reads = round(heard.silent_s, 1), heard.reads
    up = error is None
    url, load = at.endpoint.url, broker_load(loads.get(name))
    dated = place is not None and place.clock_uncertainty_s > 0.0
    offset_ms = round(1e3 * place.clock_offset_s, 3) if place is not None and dated else None
    uncertainty_ms = round(1e3 * place.clock_uncertainty_s, 3) if place is not None and dated else None
    return BrokerState(
        name,
        at.endpoint.kind,
        url,
        at.site,
        up,
        rtt_ms,
        error,
        agent,
        silent_s,
        reads,
        load,
        presence,
        offset_ms,
        uncertainty_ms,
    )
