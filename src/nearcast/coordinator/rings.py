"""Rule 11: a ring change is a mass move. Topics in use that would change owner get a route of their own before it."""

import asyncio

from nearcast.coordinator.leader import Leader
from nearcast.domain.broker import addresses_in
from nearcast.domain.errors import MoveRefused
from nearcast.domain.ring import Ring
from nearcast.domain.route import Strategy
from nearcast.transport.clock import Clock
from nearcast.wire.control import Frozen, RingChange

_AT_ONCE = 32  # topics that are pinned at a time


class RingChanges:
    """One at a time. Agents that are given up are not waited for: without a lease they can grant nothing, and the
    clients they had report that they were left alone.
    """

    def __init__(self, leader: Leader, clock: Clock) -> None:
        self._leader = leader
        self._clock = clock
        self._frozen: dict[str, Frozen] = {}  # who has answered the ring that is announced
        self._changing = asyncio.Lock()
        self._writing = False

    def anew(self, broker: str) -> None:
        """Its agent starts from nothing, or was given up: what it had frozen is not frozen any more."""
        self._frozen.pop(broker, None)

    def withholds(self, broker: str) -> bool:
        """Whether it must not have a lease just now: it would let others in under a ring that is over in a moment."""
        return self._writing and broker not in self._frozen

    def frozen(self, message: Frozen) -> None:
        if message.version == self._leader.ring.version + 1:
            self._frozen[message.broker] = message

    async def change(self, brokers: tuple[str, ...]) -> None:
        """Raises MoveRefused when a topic cannot be pinned now: then the ring has the brokers it had, and LeaseLost."""
        leader = self._leader
        async with self._changing:
            leader.must_lead()
            records, ring = leader.records, Ring(brokers, leader.ring.version + 1)
            refused = await self._pin_all(ring) if leader.rules.pin_ring else None
            if refused is not None:  # what was announced is taken back: agents go by the newest version
                ring = Ring(leader.ring.brokers, ring.version)
            self._writing = leader.rules.pin_ring
            try:
                await leader.write(records, lambda: records.save_ring(ring))
                self._made(ring)
            finally:
                self._writing = False
        if refused is not None:
            raise refused

    async def _pin_all(self, ring: Ring) -> MoveRefused | None:
        """Until every agent has frozen the topics that change owner, and those in use are pinned."""
        self._frozen = {}
        refused = None
        while refused is None and (waiting := self._unfrozen()):
            await self._announce(ring, waiting)
            refused = await self._pin(sorted({topic for frozen in self._frozen.values() for topic in frozen.topics}))
        return refused

    def _unfrozen(self) -> list[str]:
        return [broker for broker in self._leader.agents.present() if broker not in self._frozen]

    async def _announce(self, ring: Ring, waiting: list[str]) -> None:
        while waiting:
            self._tell(ring, waiting, made=False)
            await self._clock.sleep(self._leader.timing.retry_s)
            self._leader.must_lead()
            waiting = self._unfrozen()

    async def _pin(self, topics: list[str]) -> MoveRefused | None:
        """Each where it is. Returns why one could not be."""
        for first in range(0, len(topics), _AT_ONCE):
            pinned = (self._pin_one(topic) for topic in topics[first : first + _AT_ONCE])
            for outcome in await asyncio.gather(*pinned, return_exceptions=True):
                if isinstance(outcome, MoveRefused):
                    return outcome
                if outcome is not None:
                    raise outcome
        return None

    async def _pin_one(self, topic: str) -> None:
        leader = self._leader
        owner = leader.ring.owner(topic)
        if topic not in leader.moves and owner in leader.agents.present():
            await leader.move(topic, Strategy.SINGLE, (owner,), stay=True)

    def _made(self, ring: Ring) -> None:
        """An agent that is given topics hears of the ring with its next lease, when it knows their routes: one that
        knew the ring alone would take them for topics that no route names.
        """
        leader = self._leader
        leader.ring = ring
        behind: dict[str, None] = {}
        for topic, move in leader.moves.items():
            leader.do(topic, move.redirect(ring.owner(topic)))
            if move.catching_up(move.directory):
                behind[move.directory] = None
        self._tell(ring, [broker for broker in leader.agents.known() if broker not in behind], made=True)

    def _tell(self, ring: Ring, brokers: list[str], *, made: bool) -> None:
        leader = self._leader
        assert leader.term is not None
        addresses = addresses_in(leader.book, ring.brokers)
        for broker in brokers:
            leader.say(broker, RingChange(leader.term, ring.version, ring.brokers, made, addresses))
