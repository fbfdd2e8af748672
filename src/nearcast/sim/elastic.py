"""Servers that come and go by chance, under traffic: rented, drained, sometimes kept after all, and released."""

import random
from collections.abc import Callable

from nearcast.coordinator import Coordinator
from nearcast.domain.broker import Presence
from nearcast.domain.errors import BrokerRefused, LeaseLost
from nearcast.sim.deployment import Deployment

_MOST = 3  # rented at a time
_REFUSES = 0.2


class Elastic:
    """The first broker of the file stays: whoever starts anew finds the fleet by it.

    When it is `over`, nothing more is begun, and what is empty is still released.
    """

    def __init__(
        self, deployment: Deployment, rng: random.Random, every_s: float, on_rent: Callable[[str], None]
    ) -> None:
        self.over = False
        self._deployment = deployment
        self._rng = rng
        self._every_s = every_s
        self._first = deployment.ring.brokers[0]
        deployment.on_rent = on_rent
        deployment.provisioner.refuses = _REFUSES

    async def come_and_go(self) -> None:
        while True:
            await self._deployment.sleep(self._rng.expovariate(1 / self._every_s))
            leader = self._deployment.leader
            if leader is not None:
                try:
                    await self._do_something(leader)
                except (BrokerRefused, LeaseLost):
                    continue

    async def _do_something(self, leader: Coordinator) -> None:
        brokers, action = leader.brokers, self._rng.random()
        draining = brokers.named(Presence.DRAINING)
        if draining and (self.over or action < 0.4):
            await brokers.remove(name := self._rng.choice(draining))
            self._note(f"{name} is removed")
        elif self.over:
            return
        elif action < 0.7 and len(self._deployment.provisioner.rented) + brokers.joining_count < _MOST:
            await brokers.rent()
            self._note("a server is rented")
        elif draining and action < 0.75:
            await brokers.cancel(name := self._rng.choice(draining))
            self._note(f"{name} is kept after all")
        elif len(brokers.present) > 2:
            name = self._rng.choice([each for each in brokers.present if each != self._first])
            await brokers.drain(name)
            self._note(f"{name} is to be drained")

    def _note(self, text: str) -> None:
        self._deployment.history.fault(self._deployment.now, text)
