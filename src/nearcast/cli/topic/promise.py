"""How promises stand, as commands ask the leader for it and show it."""

import asyncio

from nearcast.cli.connect import operator_of
from nearcast.domain.errors import LeaseLost, LinkError
from nearcast.transport.config import Config
from nearcast.wire.promises import PromiseStanding

KEPT: dict[bool | None, str] = {True: "kept", False: "BROKEN", None: ""}


async def standings_of(config: Config, topic: str = "") -> dict[str, PromiseStanding]:
    """By topic; empty when nobody leads: what is promised is known without, how it stands is not."""
    try:
        async with asyncio.timeout(10), operator_of(config) as operator:
            return {each.topic: each for each in (await operator.standings(topic)).topics}
    except (LeaseLost, LinkError, TimeoutError):
        return {}


def promise_facts(slo: str | None, standing: PromiseStanding | None) -> dict[str, object]:
    """`slo` is what the store has."""
    found = standing or PromiseStanding("")
    return {
        "slo": slo,
        "worst_ms": found.worst_ms,
        "measured_ms": found.measured_ms,
        "samples": found.samples,
        "uncertainty_ms": found.uncertainty_ms,
        "kept": None if slo is None else found.kept,
    }
