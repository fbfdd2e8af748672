"""The agent: a thin shell around the dispatcher machine.

It has a link to its own broker, one to the control bus, and links to other brokers as paths need them.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from nearcast.agent.analyzer import Analyzer, Users
from nearcast.agent.channels import Channels
from nearcast.agent.complaints import Complaints
from nearcast.agent.counters import Counters
from nearcast.agent.reporter import Reporter
from nearcast.agent.sampler import Sampler, Sampling
from nearcast.agent.survey import Survey
from nearcast.agent.workers import Workers
from nearcast.brokers.link import Connect, LearnAddresses, forget_addresses
from nearcast.brokers.pool import Inbox, LinkPool
from nearcast.control.channel_agent import ChannelAgent
from nearcast.control.dispatcher import Dispatcher, Said
from nearcast.control.fleet_time import FleetTime
from nearcast.control.followers import TopicUser
from nearcast.control.forwarder import MOST_INCARNATIONS
from nearcast.control.homed_users import homed_users
from nearcast.control.instructions import Answer, Attach, Detach, Reply, Say, Send
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.stage import RAISED, Bury, Job, Outcome, Process
from nearcast.control.timing import Timing
from nearcast.control.whereabouts import Pace, Whereabouts
from nearcast.domain.errors import ConfigError, LinkError
from nearcast.domain.load import BrokerReport
from nearcast.domain.ring import Ring
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.transport.endpoint import Tls
from nearcast.wire.channels import Committed, Describe, Described, Follow, Known, Muster, Rehome, Unfollow
from nearcast.wire.control import (
    AGENT_SUBJECT,
    COORDINATOR_SUBJECT,
    Alive,
    Ask,
    Bye,
    Copies,
    Hello,
    Launch,
    Prepare,
    Release,
    Renew,
    RingChange,
    Tell,
    agent_bus_subject,
    client_subject,
    inlet_subject,
    seal,
    unseal,
)
from nearcast.wire.dialect import Dialect
from nearcast.wire.envelope import decode, encode
from nearcast.wire.loads import Counts, load_of
from nearcast.wire.places import Located, Placed, Probe
from nearcast.wire.rejects import Rejects

_CONFIRM_S = 0.1


def forget_dead(_topic: str, _dead: Bury) -> None:
    """For an agent beside which nobody publishes: what could not be processed is only counted."""


_FROM_CLIENTS_AND_PEERS = Hello | Bye | Ask | Launch | Copies
_FROM_COORDINATOR = Prepare | Tell | Release | Renew | RingChange


class Agent:
    """`incarnation` must differ from every earlier one of the same broker: a random number below MOST_INCARNATIONS.

    With an `analyzer`, what clients count is reported to the coordinator, with `counters` also what the server counts,
    and with `sampling` what neither counts.
    `learn` is told where brokers are that came later, before `connect` is asked for them. With a `pace` it finds out
    where its broker is among the others and what the fleet's time is, and reports where the clients of topics are;
    `chance` then gives numbers between 0 and 1. `workers` process the topics that have a processor; what they cannot
    goes to `bury`, with the topic's name.
    """

    def __init__(
        self,
        broker: str,
        connect: Connect,
        ring: Ring,
        *,
        bus: str,
        incarnation: int,
        dialect: Dialect,
        clock: Clock,
        timing: Timing | None = None,
        rules: Rules = ALL_ON,
        analyzer: Analyzer | None = None,
        counters: Counters | None = None,
        sampling: Sampling | None = None,
        learn: LearnAddresses = forget_addresses,
        pace: Pace | None = None,
        chance: Callable[[], float] = random.random,
        workers: Workers | None = None,
        bury: Callable[[str, Bury], None] = forget_dead,
        tls: Tls | None = None,
    ) -> None:
        if not 0 < incarnation < MOST_INCARNATIONS:
            raise ConfigError(
                f"agent of {broker!r}: incarnation is {incarnation}; expected 1 to {MOST_INCARNATIONS - 1}"
            )
        self.broker = broker
        self.rejects = Rejects()
        self.complaints = Complaints()
        self.machine = Dispatcher(broker, incarnation, ring, timing or Timing(), rules)
        self._bus = bus
        self._dialect = dialect
        self._clock = clock
        self._crew = Crew()
        self._pool = LinkPool(
            connect, clock, self._crew, inbox=self._inbox, on_state=self._link_changed, on_open=self._link_opened
        )
        self._alarm = Alarm(clock, self._tick)
        # A session must be higher than those of earlier lives: nothing but the wall clock outlives us.
        session = int(clock.wall() * 1000)
        channels = ChannelAgent(broker, session, timing or Timing(), users=self._homed_users)
        self.channels = Channels(channels, self._pool, clock, self._crew, bus=bus, dialect=dialect, tls=tls)
        self._confirming: dict[str, None] = {}
        self._workers = workers
        self._bury = bury
        self._learn = learn
        self._reporter: Reporter | None = None
        if analyzer is not None:
            sampler = Sampler(broker, connect, clock, sampling) if sampling is not None else None
            self._reporter = Reporter(analyzer, counters, clock, users=self._users, say=self._report, sampler=sampler)
        self._survey: Survey | None = None
        if pace is not None:
            self._survey = Survey(
                Whereabouts(f"agent-{broker}", pace, FleetTime(), chance, broker=broker),
                broker,
                connect,
                clock,
                self._crew,
                dialect=dialect,
                rejects=self.rejects,
                users=self._users,
                ring=lambda: self.machine.ring.brokers,
                say=self._report_places,
                learn=learn,
            )

    def start(self) -> None:
        self._pool.reach(self.broker)
        self._pool.reach(self._bus)
        self._tick()
        self.channels.start()
        if self._reporter is not None:
            self._reporter.start(self._crew)
        if self._survey is not None:
            self._survey.start()

    @property
    def connected(self) -> bool:
        """To its broker and to the control bus."""
        return self._pool.up(self.broker) and self._pool.up(self._bus)

    async def close(self) -> None:
        self._alarm.cancel()
        self.channels.close()
        if self._survey is not None:
            await self._survey.close()
        if self._workers is not None:
            await self._workers.close()
        await self._pool.close()
        await self._crew.close()
        if self._reporter is not None:
            await self._reporter.close()

    async def abandon(self) -> None:
        """Ends at once, without a goodbye: what a crash looks like from outside."""
        self._alarm.cancel()
        self.channels.close()
        if self._survey is not None:
            self._survey.cancel()
        if self._workers is not None:
            await self._workers.close()
        await self._crew.close()

    # What comes in

    def _inbox(self, broker: str) -> Inbox | None:
        if broker == self.broker:
            return Inbox(AGENT_SUBJECT, self._from_clients)
        if broker == self._bus:
            return Inbox(agent_bus_subject(self.broker), self._from_bus)
        return None

    def _from_clients(self, data: bytes) -> None:
        now = self._clock.now()
        message = self.rejects.read(lambda: unseal(data, self._dialect), f"clients of {self.broker}")
        if isinstance(message, _FROM_CLIENTS_AND_PEERS):
            self._do(self.machine.message(message, now))
        elif isinstance(message, Counts):
            if message.trouble is not None:
                self.complaints.heard(message.trouble)
            if self._reporter is not None:
                self._reporter.analyzer.counted(message, now)
        elif isinstance(message, Follow | Unfollow | Describe | Muster):
            self.channels.from_clients(message)
        if self._survey is None:
            return
        match message:
            case Probe():
                echo = self._survey.answer(message, now)
                self._pool.publish(self.broker, client_subject(message.asker), seal(echo, self._dialect))
            case Located():
                self._survey.located(message)
            case Counts():
                self._survey.counted(message)
            case _:
                pass

    def _from_bus(self, data: bytes) -> None:
        message = self.rejects.read(lambda: unseal(data, self._dialect), "the control bus")
        if isinstance(message, _FROM_COORDINATOR):
            if isinstance(message, Prepare | Renew | RingChange) and message.addresses:
                self._learn(message.addresses)
                if self._survey is not None:
                    self._survey.told_of(message.addresses)
            if isinstance(message, Renew) and self._survey is not None:
                self._survey.renewed(message)
            self._do(self.machine.message(message, self._clock.now()))
        elif isinstance(message, Known | Committed | Described | Rehome):
            self.channels.from_bus(message)

    def _on_topic(self, topic: str) -> Callable[[bytes], None]:
        def receive(data: bytes) -> None:
            envelope = self.rejects.read(lambda: decode(data, self._dialect), f"topic {topic}")
            if envelope is not None:
                self._follow(self.machine.frame(topic, envelope, self._clock.now()))

        return receive

    def _into(self, topic: str) -> Callable[[bytes], None]:
        def receive(data: bytes) -> None:
            envelope = self.rejects.read(lambda: decode(data, self._dialect), f"inlet of topic {topic}")
            if envelope is not None:
                self._do(self.machine.put_in(topic, envelope, self._clock.now()))

        return receive

    def _link_opened(self, broker: str) -> None:
        if broker == self._bus:
            self.channels.bus_is_up()

    def _link_changed(self, broker: str, up: bool) -> None:
        if up:
            self._link_opened(broker)
        if broker == self._bus and broker != self.broker:
            return
        match broker == self.broker, up:
            case True, True:
                self._do(self.machine.own_restored())
            case True, False:
                self.machine.own_lost()
            case False, True:
                self._do(self.machine.peer_restored(broker))
            case _:
                self.machine.peer_lost(broker)

    # What goes out

    def _tick(self) -> None:
        self._do(self.machine.tick(self._clock.now(), broker_up=self._pool.up(self.broker)))

    def _do(self, said: list[Said]) -> None:
        self._follow(said)
        self._alarm.set(self.machine.wake_s())

    def _follow(self, said: list[Said]) -> None:
        for topic, instruction in said:
            match instruction:
                case Send(broker, envelope):
                    self._pool.publish(broker, topic, encode(envelope, self._dialect))
                    if broker != self.broker:
                        self._confirm_soon(broker)
                case Say(broker, message):
                    self._pool.publish(broker, AGENT_SUBJECT, seal(message, self._dialect))
                case Reply(client, message):
                    self._pool.publish(self.broker, client_subject(client), seal(message, self._dialect))
                case Answer(message):
                    if isinstance(message, Alive) and self._survey is not None:
                        message = self._survey.dated(message)
                    self._pool.publish(self._bus, COORDINATOR_SUBJECT, seal(message, self._dialect))
                case Attach(inlet=inlet):
                    self._attach(topic, inlet=inlet)
                case Detach(inlet=inlet):
                    self._pool.detach(self.broker, inlet_subject(topic) if inlet else topic)
                case Process(job):
                    self._process(topic, job)
                case Bury():
                    self._bury(topic, instruction)
                case _:
                    raise AssertionError(f"an agent does not {instruction}")

    def _attach(self, topic: str, *, inlet: bool) -> None:
        def attached() -> None:
            self._do(self.machine.subscribed(topic, self._clock.now(), inlet=inlet))

        if inlet:
            self._pool.attach(self.broker, inlet_subject(topic), self._into(topic), attached)
        else:
            self._pool.attach(self.broker, topic, self._on_topic(topic), attached)

    def _process(self, topic: str, job: Job) -> None:
        def done(outcome: Outcome) -> None:
            self._do(self.machine.processed(topic, job.number, outcome, self._clock.now()))

        if self._workers is None:
            nobody = Outcome(failure=RAISED, error=f"the agent of {self.broker!r} was started without workers")
            self._clock.call_later(0.0, done, nobody)
        else:
            self._workers.run(job, done)

    # Reports

    def _users(self) -> dict[str, Users]:
        return {
            topic: Users(
                frozenset(entry.client for entry in each.clients.entries.values() if not entry.publisher),
                frozenset(entry.client for entry in each.clients.entries.values() if entry.publisher),
                tapped=bool(each.attached),
                forwarded=each.forwards,
            )
            for topic, each in self.machine.forwarders.items()
        }

    def _homed_users(self) -> dict[str, TopicUser]:
        survey = self._survey
        return homed_users(self.machine.forwarders, *(() if survey is None else (survey.monitor.spot,)))

    def _report(self, report: BrokerReport) -> None:
        if self._pool.up(self._bus):
            handed_over, handovers = self.machine.handovers()
            processed = self.machine.processing()
            report = replace(report, handed_over=handed_over, handovers=handovers, processed=processed)
            self._pool.publish(self._bus, COORDINATOR_SUBJECT, seal(load_of(report), self._dialect))

    def _report_places(self, placed: Placed) -> None:
        if self._pool.up(self._bus):
            self._pool.publish(self._bus, COORDINATOR_SUBJECT, seal(placed, self._dialect))

    # Confirmations of what was forwarded

    def _confirm_soon(self, broker: str) -> None:
        if broker not in self._confirming:
            self._confirming[broker] = None
            self._clock.call_later(_CONFIRM_S, self._start_confirming, broker)

    def _start_confirming(self, broker: str) -> None:
        self._crew.start(self._confirm(broker), f"confirmations of {broker}")

    async def _confirm(self, broker: str) -> None:
        try:
            sent = self.machine.sent(broker)
            await self._pool.flush(broker)
            self.machine.confirmed(broker, sent)
        except LinkError:
            pass  # the paths are sent again when the link is back
        finally:
            self._confirming.pop(broker, None)
