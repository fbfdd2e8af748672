"""The clockwork around the analyzer: asks the server for its counters, samples, and reports once a second."""

import contextlib
from collections import deque
from collections.abc import Callable, Mapping

from nearcast.agent.analyzer import Analyzer, Users
from nearcast.agent.counters import Counters
from nearcast.agent.sampler import Sampler
from nearcast.domain.errors import LinkDown
from nearcast.domain.load import BrokerReport
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew

_REPORT_S = 1.0
_LIST_S = 2.0
# The list of listeners is asked for again after so many times as long as it took, the shortest of a few: a machine that
# was busy for a moment does not make a list long.
_COST, _TIMES = 100.0, 3


class Reporter:
    def __init__(
        self,
        analyzer: Analyzer,
        counters: Counters | None,
        clock: Clock,
        *,
        users: Callable[[], Mapping[str, Users]],
        say: Callable[[BrokerReport], None],
        sampler: Sampler | None = None,
    ) -> None:
        self.analyzer = analyzer
        self._counters = counters
        self._clock = clock
        self._users = users
        self._say = say
        self._sampler = sampler

    def start(self, crew: Crew) -> None:
        crew.start(self._report(), "reports")
        if self._counters is not None:
            crew.start(self._poll(self._counters, crew), "the server's counters")

    async def close(self) -> None:
        """After the crew has ended."""
        if self._counters is not None:
            await self._counters.close()
        if self._sampler is not None:
            await self._sampler.close()

    async def _report(self) -> None:
        clock = self._clock
        while True:
            await clock.sleep(_REPORT_S)
            self._say(self.analyzer.report(clock.now(), clock.wall(), self._users()))

    async def _poll(self, counters: Counters, crew: Crew) -> None:
        """A server that does not answer is asked again: meanwhile what clients count is all there is.

        Topics are sampled in between, never while listeners are counted: the sampler is one of them.
        """
        clock = self._clock
        list_s = clock.now()
        took_s: deque[float] = deque(maxlen=_TIMES)
        while True:
            with contextlib.suppress(LinkDown):
                self.analyzer.totals(await counters.totals())
                if (begun_s := clock.now()) >= list_s:
                    try:
                        self.analyzer.listening(await counters.listening())
                    finally:  # a list that is too long costs as much as one that is not
                        took_s.append(clock.now() - begun_s)
                        list_s = begun_s + max(_LIST_S, _COST * min(took_s)) - _REPORT_S / 2
            begun_s = clock.now()
            if self._sampler is not None:
                for sample in await self._sampler.sample(self.analyzer.uncounted(self._users()), crew):
                    self.analyzer.sampled(sample)
            await clock.sleep(max(0.0, begun_s + _REPORT_S - clock.now()))
