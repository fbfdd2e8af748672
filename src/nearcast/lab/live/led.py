"""A deployment whose coordinator leads: what an experiment on real servers waits for before it begins."""

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress

from nearcast.brokers.connect import connector
from nearcast.coordinator import Operator
from nearcast.domain.errors import LeaseLost, LinkDown, LogRefused
from nearcast.domain.log import LogSpec
from nearcast.transport.access import Role
from nearcast.transport.config import BUS, Config

_LED_S = 60.0
_LOOK_S = 0.2


def operator_of(config: Config) -> Operator:
    name, config = f"lab{time.monotonic_ns()}", config.acting(Role.COORDINATOR)
    return Operator(name, connector(config.endpoints(), name=name), bus=BUS, dialect=config.dialect)


async def until_led(config: Config, brokers: Collection[str]) -> None:
    """Returns when a coordinator leads and the agents of these brokers have answered it."""
    deadline_s = time.monotonic() + _LED_S
    while time.monotonic() < deadline_s:
        with suppress(LinkDown, LeaseLost):
            async with operator_of(config) as operator:
                if {each.broker for each in (await operator.status()).agents if each.present} >= set(brokers):
                    return
        await asyncio.sleep(_LOOK_S)
    raise LeaseLost(f"no coordinator led the agents of {', '.join(sorted(brokers))} within {_LED_S:.0f} s")


async def keep(config: Config, topic: str, replicas: int = 1) -> None:
    """Makes the topic persistent. A cluster that has just started has no leader yet."""
    async with asyncio.timeout(_LED_S):
        while True:
            with suppress(LogRefused):
                async with operator_of(config) as operator:
                    await operator.keep(topic, LogSpec(replicas))
                    return
            await asyncio.sleep(_LOOK_S)
