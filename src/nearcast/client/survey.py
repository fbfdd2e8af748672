"""The clockwork around a client's whereabouts: probes go out, echoes come in, agents are told."""

from collections.abc import Callable

from nearcast.brokers.link import Connect, LearnAddresses
from nearcast.brokers.pool import Inbox, LinkPool
from nearcast.control.whereabouts import Whereabouts
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.control import AGENT_SUBJECT, client_subject, seal, unseal
from nearcast.wire.dialect import Dialect
from nearcast.wire.places import Echo
from nearcast.wire.rejects import Rejects


class Survey:
    """Brokers that the client uses are reached over `pool`, and others over links that serve nothing else.

    `used` gives the first, `ring` the fleet as the client knows it.
    """

    def __init__(
        self,
        machine: Whereabouts,
        pool: LinkPool,
        connect: Connect,
        clock: Clock,
        crew: Crew,
        *,
        dialect: Dialect,
        rejects: Rejects,
        used: Callable[[], list[str]],
        ring: Callable[[], tuple[str, ...]],
        learn: LearnAddresses,
    ) -> None:
        self.machine = machine
        self._pool = pool
        self._others = LinkPool(connect, clock, crew, inbox=self._inbox, on_state=_ignore, on_open=self._reached)
        self._clock = clock
        self._dialect = dialect
        self._rejects = rejects
        self._used = used
        self._ring = ring
        self._learn = learn
        self._alarm = Alarm(clock, self._tick)

    def start(self) -> None:
        self._tick()

    def echo(self, message: Echo) -> None:
        if message.addresses:
            self._learn(message.addresses)
        now = self._clock.now()
        if self.machine.echo(message, now):
            self._tell(now)

    def set_gateway(self, broker: str) -> None:
        self.machine.set_gateway(broker, self._clock.now())
        self._tick()

    async def close(self) -> None:
        self._alarm.cancel()
        await self._others.close()

    def cancel(self) -> None:
        self._alarm.cancel()

    def _inbox(self, broker: str) -> Inbox:
        def receive(data: bytes) -> None:
            message = self._rejects.read(lambda: unseal(data, self._dialect), f"agent of {broker}")
            if isinstance(message, Echo):
                self.echo(message)

        return Inbox(client_subject(self.machine.name), receive)

    def _reached(self, _broker: str) -> None:
        self.machine.reached(self._clock.now())
        self._tick()

    def _tick(self) -> None:
        now, machine = self._clock.now(), self.machine
        used = self._used()
        machine.ring(self._ring())
        machine.use(used, now)
        for broker, probe in machine.probes(now):
            pool = self._pool if broker in used else self._others
            if pool.up(broker):
                pool.publish(broker, AGENT_SUBJECT, seal(probe, self._dialect))
            else:
                pool.reach(broker)  # what waited for a connection would seem to have been long under way
        self._others.keep(machine.linked)
        self._tell(now)
        self._alarm.set(machine.wake_s(now))

    def _tell(self, now: float) -> None:
        for broker, located in self.machine.tellings(now):
            self._pool.publish(broker, AGENT_SUBJECT, seal(located, self._dialect))


def _ignore(_broker: str, _up: bool) -> None:
    """A link that breaks is there again when it is: meanwhile nothing is asked over it."""
