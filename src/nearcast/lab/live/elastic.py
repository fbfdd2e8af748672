"""Servers that come and go on real servers, under traffic."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from nearcast.coordinator import Operator
from nearcast.domain.broker import Presence
from nearcast.domain.errors import LeaseLost, LinkDown, NearcastError
from nearcast.domain.route import Strategy
from nearcast.wire.brokers import BrokerStanding

_DEADLINE_S = 120.0
_LOOK_S = 0.2

Standing = BrokerStanding | None


async def come_and_go(ask: Callable[[], Operator], places: list[str], topics: list[str], rounds: int) -> int:
    """In every round a server is rented, topics move to it, and a server is drained and removed: the new one, and in
    the end one of the first. `places` is kept as what moves may use. Returns how many were removed.
    """
    removed = 0
    for number in range(1, rounds + 1):
        new = f"r{number}"
        async with ask() as operator:
            await operator.broker("add", new)
        await _until(ask, new, lambda each: each is not None and each.state is Presence.PRESENT)
        places.append(new)
        async with ask() as operator:
            for topic in topics[:4]:
                with contextlib.suppress(NearcastError):  # it moves already
                    await operator.move(topic, Strategy.SINGLE, (new,), timeout_s=15.0)
        leaving = places[-2] if number == rounds else new
        places.remove(leaving)
        async with ask() as operator:
            await operator.broker("drain", leaving)
        await _until(ask, leaving, lambda each: each is not None and not each.left and not each.in_ring)
        async with ask() as operator:
            await operator.broker("remove", leaving)
        await _until(ask, leaving, lambda each: each is None)
        removed += 1
    return removed


async def _until(ask: Callable[[], Operator], broker: str, reached: Callable[[Standing], bool]) -> None:
    until_s = time.monotonic() + _DEADLINE_S
    standing: Standing = None
    while time.monotonic() < until_s:
        with contextlib.suppress(LinkDown, LeaseLost):
            async with ask() as operator:
                standing = {each.name: each for each in (await operator.status()).brokers}.get(broker)
                if reached(standing):
                    return
        await asyncio.sleep(_LOOK_S)
    raise NearcastError(f"broker {broker!r} did not get on within {_DEADLINE_S:.0f} s: {standing}")
