"""The clockwork around the analyzer: how often a server is asked."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nearcast.agent.analyzer import Analyzer, Listening, Totals
from nearcast.agent.reporter import Reporter
from nearcast.domain.errors import LinkDown
from nearcast.sim.loop import in_virtual_time
from nearcast.sim.network import Network
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew

TOOK_S = 0.5


class Crowded:
    """A server whose list of listeners takes long, each time as long as `took_s` says or the last of it; `fails`: until
    it is given up.
    """

    def __init__(self, clock: Clock, *, fails: bool = False, took_s: tuple[float, ...] = (TOOK_S,)) -> None:
        self.totalled = 0
        self.listed = 0
        self._clock = clock
        self._fails = fails
        self._took_s = took_s

    async def totals(self) -> Totals:
        self.totalled += 1
        return Totals(self._clock.now(), 0)

    async def listening(self) -> Listening:
        self.listed += 1
        await self._clock.sleep(self._took_s[min(self.listed, len(self._took_s)) - 1])
        if self._fails:
            raise LinkDown("an answer of too many bytes")
        return Listening(self._clock.now(), {})

    async def close(self) -> None:
        pass


@asynccontextmanager
async def reporting(counters: Crowded, clock: Clock) -> AsyncIterator[None]:
    crew = Crew()
    reporter = Reporter(Analyzer("b"), counters, clock, users=dict, say=lambda _report: None)
    reporter.start(crew)
    yield
    await crew.close()
    await reporter.close()


@pytest.mark.parametrize("fails", [False, True])
@in_virtual_time
async def test_a_list_that_costs_much_is_asked_for_seldom_also_when_it_is_too_long(fails: bool) -> None:
    clock = Network(random.Random(1)).start_process("agent").clock
    counters = Crowded(clock, fails=fails)
    async with reporting(counters, clock):
        await asyncio.sleep(99.0 * TOOK_S)
        assert counters.listed == 1
        assert counters.totalled >= 45
        await asyncio.sleep(3.0)
        assert counters.listed == 2


@in_virtual_time
async def test_a_list_that_took_long_once_is_asked_for_as_often_as_before() -> None:
    clock = Network(random.Random(1)).start_process("agent").clock
    counters = Crowded(clock, took_s=(0.001, 0.2, 0.001))
    async with reporting(counters, clock):
        await asyncio.sleep(10.0)
    assert counters.listed == 5
