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

    def frozen(self, message: Frozen) -> None:
        if message.version == self._leader.ring.version + 1:
            self._frozen[message.broker] = message

    async def change(self, brokers: tuple[str, ...]) -> None:
        """Raises MoveRefused when a topic cannot be pinned now: then the ring has the brokers it had, and LeaseLost."""
        leader = self._leader
        async with self._changing:
            leader.must_lead()
            records, ring = leader.records, Ring(brokers, leader.ring.version + 1)
            refused = await self._pin(await self._announce(ring)) if leader.rules.pin_ring else None
            if refused is not None:  # what was announced is taken back: agents go by the newest version
                ring = Ring(leader.ring.brokers, ring.version)
            await leader.write(records, lambda: records.save_ring(ring))
            self._made(ring)
        if refused is not None:
            raise refused

    async def _announce(self, ring: Ring) -> list[str]:
        """Returns, when every agent has frozen them, the topics in use that no route names and that change owner."""
        leader = self._leader
        self._frozen = {}
        while True:
            waiting = [broker for broker in leader.agents.present() if broker not in self._frozen]
            if not waiting:
                return sorted({topic for frozen in self._frozen.values() for topic in frozen.topics})
            self._tell(ring, waiting, made=False)
            await self._clock.sleep(leader.timing.retry_s)
            leader.must_lead()

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
