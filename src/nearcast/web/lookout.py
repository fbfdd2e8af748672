"""Looks at the deployment every two seconds, by asking whoever leads over the control bus; and keeps what it saw.

Every coordinator has one, whether it leads or not: all of them answer alike, and what was seen outlasts a leader.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from nearcast.coordinator import Operator
from nearcast.domain.errors import LeaseLost, LinkDown, LinkError, NearcastError, SnapshotError
from nearcast.domain.snapshot_json import read_snapshot
from nearcast.web.history import History
from nearcast.web.projection import Projection
from nearcast.web.view import View
from nearcast.wire.control import Loaded, Status
from nearcast.wire.homes import HomesTold

LOOK_S = 2.0
_COST = 20.0
"""The next look is after so many times as long as the last one took: however large a fleet is, looking costs little."""

_log = logging.getLogger(__name__)


class Lookout:
    def __init__(self, open_operator: Callable[[], Operator], policy: str, *, look_s: float = LOOK_S) -> None:
        self.view: View | None = None
        self.trouble = "nobody has been asked yet"
        self.history = History()
        self.looks = 0
        self._open = open_operator
        self._policy = policy
        self._look_s = look_s
        self._operator: Operator | None = None
        self._projection = Projection()
        self._waiting: list[asyncio.Future[None]] = []
        self._due = asyncio.Event()
        self._begun = 0
        self._ended = 0

    @property
    def operator(self) -> Operator:
        """Raises LinkDown while the control bus is not connected."""
        if self._operator is None:
            raise LinkDown("the control bus is not connected now: traffic goes on with the last plan, nothing moves")
        return self._operator

    def age_s(self) -> float:
        return 0.0 if self.view is None else max(0.0, time.time() - self.view.at_s)

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                async with self._open() as operator:
                    self._operator = operator
                    await self._look_on(operator)
            except LinkError as error:
                self.trouble = str(error)
                self.changed()
            finally:
                self._operator = None
            await asyncio.sleep(self._look_s)

    async def wait(self) -> None:
        """Until something new was seen."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    async def anew(self) -> None:
        """Something was ordered: it is looked at without waiting. Until a look is over that began after this."""
        wanted = self._begun + 1
        while self._ended < wanted:
            self._due.set()
            await self.wait()

    def changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def look(self, operator: Operator) -> View:
        """Raises LeaseLost when nobody leads, LinkDown, or SnapshotError."""
        status = await operator.status()
        content, standings, rebalancing = await asyncio.gather(
            operator.snapshot(timeout_s=10.0), operator.standings(every=True), operator.rebalance("status")
        )
        loads, homes = await asyncio.gather(_loads(operator, status), _homes(operator))
        return View(
            time.time(),
            status,
            read_snapshot(content, "the leader"),
            {each.topic: each for each in standings.topics},
            loads,
            rebalancing,
            homes,
            self._policy,
            self._projection,
        )

    async def _look_on(self, operator: Operator) -> None:
        while True:
            begun_s, self._begun = time.monotonic(), self._begun + 1
            try:
                self.view = await self.look(operator)
                self.history.add(self.view.at_s, self.view.standings)
                self.looks += 1
                self.trouble = ""
            except LinkDown:
                raise
            except (LeaseLost, SnapshotError) as error:
                self.trouble = str(error)
            self._ended = self._begun
            self.changed()
            took_s = time.monotonic() - begun_s
            pause_s = max(self._look_s - took_s, min(_COST * took_s, 60.0) if took_s > 0.5 else 0.0, 0.05)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), pause_s)
            self._due.clear()


async def _loads(operator: Operator, status: Status) -> dict[str, Loaded]:
    brokers = [each.broker for each in status.agents if each.present]
    asked = await asyncio.gather(*(operator.load(broker) for broker in brokers))
    return {broker: each for broker, each in zip(brokers, asked, strict=True) if each.load is not None}


async def _homes(operator: Operator) -> HomesTold | None:
    try:
        return await operator.homes(timeout_s=3.0)
    except LeaseLost:
        raise
    except NearcastError:
        return None
