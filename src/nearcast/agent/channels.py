"""Channels at an agent: a thin shell around the machine, and the questions for results over HTTP."""

import asyncio
import logging

from nearcast.brokers.pool import LinkPool
from nearcast.control.channel_agent import ChannelAgent, Fetch, Publish, TellCoordinator, TellFollower, TellPipeline
from nearcast.control.instructions import Instruction
from nearcast.domain.errors import MessageTooLarge, WireError
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.transport.endpoint import Tls
from nearcast.transport.http import ask
from nearcast.wire.channels import (
    PIPELINE_SUBJECT,
    RESULTS_PATH,
    Committed,
    Describe,
    Described,
    Follow,
    Known,
    Muster,
    Notice,
    Pull,
    Pulled,
    Rehome,
    Unfollow,
    channel_subject,
    parts_of,
)
from nearcast.wire.control import COORDINATOR_SUBJECT, Control, client_subject, seal, unseal
from nearcast.wire.dialect import Dialect

_PATIENCE_S = 30.0
_MOST_BYTES = 256_000_000

_log = logging.getLogger(__name__)


class Channels:
    def __init__(
        self,
        machine: ChannelAgent,
        pool: LinkPool,
        clock: Clock,
        crew: Crew,
        *,
        bus: str,
        dialect: Dialect,
        tls: Tls | None = None,
    ) -> None:
        """`tls`: whom the pipeline must be certified by, where results are pulled over HTTPS."""
        self.machine = machine
        self._pool = pool
        self._clock = clock
        self._crew = crew
        self._bus = bus
        self._dialect = dialect
        self._tls = tls
        self._well = True  # the last question for results was answered
        self._alarm = Alarm(clock, self._tick)

    def start(self) -> None:
        self._tick()

    def bus_is_up(self) -> None:
        self.machine.followers.anew()
        self._tick()

    def close(self) -> None:
        self._alarm.cancel()

    def from_clients(self, message: Control) -> None:
        machine, now = self.machine, self._clock.now()
        match message:
            case Follow():
                self._do(machine.follow(message, now))
            case Unfollow():
                self._do(machine.unfollow(message, now))
            case Describe():
                self._do(machine.describe(message))
            case Muster():
                self._do(machine.muster(message))
            case _:
                pass

    def from_bus(self, message: Control) -> None:
        machine, now = self.machine, self._clock.now()
        match message:
            case Known():
                self._do(machine.known(message, now))
            case Committed():
                self._do(machine.committed(message, now))
            case Described():
                self._do(machine.described(message))
            case Rehome():
                self._do(machine.rehome(message))
            case _:
                pass

    def _tick(self) -> None:
        self._do(self.machine.tick(self._clock.now()))

    def _do(self, instructions: list[Instruction]) -> None:
        for each in instructions:
            match each:
                case TellFollower(client, message):
                    subject = client_subject(client)
                    for part in parts_of(message) if isinstance(message, Notice) else (message,):
                        self._publish(subject, seal(part, self._dialect))
                case Publish(notice):
                    for part in parts_of(notice):
                        data = seal(part, self._dialect)
                        self._publish(channel_subject(notice.key), data)
                        self.machine.published(notice.key, len(data))
                case TellPipeline(message):
                    self._pool.publish(self._bus, PIPELINE_SUBJECT, seal(message, self._dialect))
                case TellCoordinator(message):
                    if self._pool.up(self._bus):
                        self._pool.publish(self._bus, COORDINATOR_SUBJECT, seal(message, self._dialect))
                case Fetch(url, pull):
                    self._crew.start(self._fetch(url, pull), f"results of {pull.channel}")
                case _:
                    raise AssertionError(f"an agent does not {each}")
        self._alarm.set(self.machine.wake_s())

    def _publish(self, subject: str, data: bytes) -> None:
        try:
            self._pool.publish(self.machine.broker, subject, data)
        except MessageTooLarge as error:
            _log.warning("a notification cannot be sent: %s", error)

    async def _fetch(self, url: str, pull: Pull) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                pulled = seal(pull, self._dialect)
                data = await ask(url, RESULTS_PATH, pulled, most_bytes=_MOST_BYTES, tls=self._tls)
            answer = unseal(data, self._dialect)
            if not isinstance(answer, Pulled):
                raise WireError(f"a {type(answer).__name__} is no answer to a pull")  # noqa: TRY301  # as unseal does
        except (OSError, EOFError, ValueError, TimeoutError, WireError) as error:
            if self._well:
                _log.warning("%s: %s (asked again until it answers)", url, str(error) or type(error).__name__)
            self._well = False
            self._do(self.machine.not_pulled(pull, self._clock.now()))
        else:
            self._well = True
            self._do(self.machine.pulled(pull, answer, self._clock.now()))
