"""The operator's side: asks whoever leads, over the control bus, and waits for the answer.

Not promised: that an order which was not answered in time was not carried out.
"""

import asyncio
import itertools
import zlib
from types import TracebackType
from typing import Self, TypeVar

from nearcast.brokers.link import Connect, Link
from nearcast.domain.errors import (
    BrokerRefused,
    ConfigError,
    LeaseLost,
    LinkDown,
    LogRefused,
    MoveRefused,
    SnapshotError,
)
from nearcast.domain.log import LogSpec
from nearcast.domain.processor import Processor
from nearcast.domain.route import Delegation, Strategy
from nearcast.domain.slo import Slo
from nearcast.wire.brokers import BrokerDoing, BrokerOrder
from nearcast.wire.control import (
    COORDINATOR_SUBJECT,
    Answered,
    Change,
    DryRun,
    Loaded,
    LoadOrder,
    MoveOrder,
    Order,
    Outcome,
    Status,
    StatusOrder,
    client_subject,
    seal,
    unseal,
)
from nearcast.wire.dialect import Dialect
from nearcast.wire.homes import HomesOrder, HomesTold
from nearcast.wire.logs import KeepOrder
from nearcast.wire.places import PlacesOrder, PlacesTold
from nearcast.wire.processors import ProcessOrder
from nearcast.wire.promises import PromiseOrder, SnapshotOrder, SnapshotPart, StandingOrder, Standings
from nearcast.wire.rebalancing import Doing, Foreseen, RebalanceOrder, Rebalancing
from nearcast.wire.rejects import Rejects

_A = TypeVar("_A", bound=Answered)
_ASK_AGAIN_S = 0.5


class Operator:
    """Use as `async with Operator(...) as operator`; entering raises LinkDown when the bus cannot be reached."""

    def __init__(self, name: str, connect: Connect, *, bus: str, dialect: Dialect) -> None:
        self.name = name
        self.rejects = Rejects()
        self._connect = connect
        self._bus = bus
        self._dialect = dialect
        self._link: Link | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Answered]] = {}
        self._parts: dict[int, dict[int, bytes]] = {}  # of snapshots that are on their way

    async def __aenter__(self) -> Self:
        self._link = await self._connect(self._bus, lambda _up: None)
        await self._link.subscribe(client_subject(self.name), self._receive)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._link is not None:
            await self._link.close()

    async def move(
        self,
        topic: str,
        strategy: Strategy,
        brokers: tuple[str, ...],
        *,
        eager: bool = True,
        reason: str = "",
        delegation: Delegation | None = None,
        timeout_s: float = 30.0,
    ) -> int:
        """Returns the new epoch when clients are being told. Raises MoveRefused, or LeaseLost when nobody leads."""
        number = next(self._numbers)
        order = MoveOrder(topic, self.name, number, strategy, brokers, eager, reason, delegation)
        outcome = await self._ask(order, number, Outcome, timeout_s)
        if outcome.refused:
            raise MoveRefused(outcome.refused)
        return outcome.epoch

    async def status(self, *, timeout_s: float = 3.0) -> Status:
        """What the leader sees. Raises LeaseLost when nobody leads."""
        number = next(self._numbers)
        until_s = asyncio.get_running_loop().time() + timeout_s
        while True:  # a question may be asked twice, and one may be lost while leadership changes
            left_s = until_s - asyncio.get_running_loop().time()
            try:
                return await self._ask(StatusOrder(self.name, number), number, Status, min(_ASK_AGAIN_S, left_s))
            except LeaseLost:
                if left_s <= _ASK_AGAIN_S:
                    raise

    async def rebalance(
        self, do: Doing, *, policy: str = "", plan: int = 0, reason: str = "", timeout_s: float = 10.0
    ) -> Rebalancing:
        """The plan in question, and how far it is. Raises LeaseLost when nobody leads."""
        number = next(self._numbers)
        order = RebalanceOrder(self.name, number, do, policy, plan, reason)
        return await self._ask(order, number, Rebalancing, timeout_s)

    async def foresee(self, order: Change, *, timeout_s: float = 10.0) -> Foreseen:
        """What the order would do, which is not carried out. Raises LeaseLost when nobody leads."""
        number = next(self._numbers)
        return await self._ask(DryRun(self.name, number, order), number, Foreseen, timeout_s)

    async def carry_out(self, order: Change, *, timeout_s: float = 30.0) -> Outcome | Rebalancing:
        """What became of an order with a number that `numbered` gave. Raises LeaseLost when nobody leads."""
        if isinstance(order, RebalanceOrder):
            return await self._ask(order, order.number, Rebalancing, timeout_s)
        return await self._ask(order, order.number, Outcome, timeout_s)

    def numbered(self) -> int:
        """For an order that is made elsewhere."""
        return next(self._numbers)

    async def broker(
        self,
        do: BrokerDoing,
        name: str,
        *,
        url: str = "",
        site: str = "",
        out_bytes_per_s: float | None = None,
        reason: str = "",
        timeout_s: float = 10.0,
    ) -> None:
        """Returns when the order is written; how far it is, `status` says. Raises BrokerRefused, or LeaseLost."""
        number = next(self._numbers)
        order = BrokerOrder(self.name, number, do, name, url, site, out_bytes_per_s, reason)
        outcome = await self._ask(order, number, Outcome, timeout_s)
        if outcome.refused:
            raise BrokerRefused(outcome.refused)

    async def promise(self, topic: str, slo: Slo | None, *, reason: str = "", timeout_s: float = 10.0) -> None:
        """Returns when it is written; None for no promise. Raises ConfigError, or LeaseLost when nobody leads."""
        number = next(self._numbers)
        order = PromiseOrder(self.name, number, topic, "" if slo is None else str(slo), reason)
        outcome = await self._ask(order, number, Outcome, timeout_s)
        if outcome.refused:
            raise ConfigError(outcome.refused)

    async def keep(self, topic: str, spec: LogSpec, *, timeout_s: float = 30.0) -> int:
        """Makes the topic persistent, or changes how long its messages are kept. The epoch from which on it is.

        Raises LogRefused, or LeaseLost when nobody leads.
        """
        number = next(self._numbers)
        outcome = await self._ask(KeepOrder(self.name, number, topic, spec), number, Outcome, timeout_s)
        if outcome.refused:
            raise LogRefused(outcome.refused)
        return outcome.epoch

    async def process(
        self, topic: str, processor: Processor | None, *, reason: str = "", timeout_s: float = 30.0
    ) -> int:
        """Has the topic's messages processed like this, or not any more. The epoch from which on it is so.

        Raises MoveRefused, or LeaseLost when nobody leads.
        """
        number = next(self._numbers)
        order = ProcessOrder(self.name, number, topic, processor, reason)
        outcome = await self._ask(order, number, Outcome, timeout_s)
        if outcome.refused:
            raise MoveRefused(outcome.refused)
        return outcome.epoch

    async def standings(self, topic: str = "", *, every: bool = False, timeout_s: float = 3.0) -> Standings:
        """How promises stand: one topic's, or all; with `every`, also what is measured of topics that have none.

        Raises LeaseLost when nobody leads.
        """
        number = next(self._numbers)
        return await self._ask(StandingOrder(self.name, number, topic, every), number, Standings, timeout_s)

    async def places(self, topic: str = "", *, timeout_s: float = 3.0) -> PlacesTold:
        """Where brokers are, and the clients of a topic. Raises LeaseLost when nobody answers."""
        number = next(self._numbers)
        return await self._ask(PlacesOrder(self.name, number, topic), number, PlacesTold, timeout_s)

    async def homes(self, *, timeout_s: float = 10.0) -> HomesTold:
        """How subscribers are spread over brokers. Raises SnapshotError, or LeaseLost when nobody leads."""
        number = next(self._numbers)
        found = await self._ask(HomesOrder(self.name, number), number, HomesTold, timeout_s)
        if found.refused:
            raise SnapshotError(found.refused)
        return found

    async def snapshot(self, *, timeout_s: float = 30.0) -> bytes:
        """What a policy sees now, as a snapshot's file has it. Raises SnapshotError, or LeaseLost."""
        number = next(self._numbers)
        parts: dict[int, bytes] = {}
        self._parts[number] = parts
        try:
            last = await self._ask(SnapshotOrder(self.name, number), number, SnapshotPart, timeout_s)
        finally:
            del self._parts[number]
        if last.refused:
            raise SnapshotError(last.refused)
        return zlib.decompress(b"".join(parts[at] for at in sorted(parts)))

    async def load(self, broker: str, *, timeout_s: float = 3.0) -> Loaded:
        """The newest report of the broker. Raises LeaseLost when nobody leads."""
        number = next(self._numbers)
        return await self._ask(LoadOrder(self.name, number, broker), number, Loaded, timeout_s)

    async def _ask(self, order: Order, number: int, kind: type[_A], timeout_s: float) -> _A:
        if self._link is None or not self._link.up:
            raise LinkDown("the control bus is not connected now: traffic goes on with the last plan, nothing moves")
        self._asked[number] = answer = asyncio.get_running_loop().create_future()
        self._link.publish(COORDINATOR_SUBJECT, seal(order, self._dialect))
        try:
            async with asyncio.timeout(timeout_s):
                found = await answer
        except TimeoutError:
            raise LeaseLost(f"no coordinator answered within {timeout_s:g} s; does one run, and lead?") from None
        finally:
            del self._asked[number]
        assert isinstance(found, kind)
        return found

    def _receive(self, data: bytes) -> None:
        message = self.rejects.read(lambda: unseal(data, self._dialect), "the coordinator")
        if isinstance(message, SnapshotPart):
            parts = self._parts.get(message.number, {})
            parts[message.part] = message.content
            if len(parts) < message.parts:
                return
        if isinstance(message, Answered):
            asked = self._asked.get(message.number)
            if asked is not None and not asked.done():
                asked.set_result(message)
