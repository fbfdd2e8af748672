"""The clockwork around the analyzer: how often a server is asked."""

import asyncio
import random

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
    """A server whose list of listeners takes long; `fails`: until it is given up."""

    def __init__(self, clock: Clock, *, fails: bool) -> None:
        self.totalled = 0
        self.listed = 0
        self._clock = clock
        self._fails = fails

    async def totals(self) -> Totals:
        self.totalled += 1
        return Totals(self._clock.now(), 0)

    async def listening(self) -> Listening:
        self.listed += 1
        await self._clock.sleep(TOOK_S)
        if self._fails:
            raise LinkDown("an answer of too many bytes")
        return Listening(self._clock.now(), {})

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("fails", [False, True])
@in_virtual_time
async def test_a_list_that_costs_much_is_asked_for_seldom_also_when_it_is_too_long(fails: bool) -> None:
    process, crew = Network(random.Random(1)).start_process("agent"), Crew()
    counters = Crowded(process.clock, fails=fails)
    reporter = Reporter(Analyzer("b"), counters, process.clock, users=dict, say=lambda _report: None)
    reporter.start(crew)
    await asyncio.sleep(99.0 * TOOK_S)
    assert counters.listed == 1
    assert counters.totalled >= 45
    await asyncio.sleep(3.0)
    assert counters.listed == 2
    await crew.close()
    await reporter.close()
