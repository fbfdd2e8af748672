"""A whole nearcast deployment in virtual time: the production client, agent and coordinator on a simulated network.

Everything the clients do is written into a `History`, in the time of the run.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nearcast.agent import Agent
from nearcast.agent.analyzer import Analyzer
from nearcast.client import Client, Subscription
from nearcast.control.loop import LoopSettings
from nearcast.control.rehoming import HomesSettings
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.stage import Bury
from nearcast.control.timing import Timing
from nearcast.control.whereabouts import AGENT_PACE, CLIENT_PACE
from nearcast.coordinator import Coordinator
from nearcast.coordinator.brokers import Fleet
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.ring import Ring
from nearcast.sim.clock import WALL_AT_START_S, Skew
from nearcast.sim.history import History
from nearcast.sim.network import Network, Process
from nearcast.sim.provisioner import Acquainted, SimProvisioner
from nearcast.sim.recorder import Recorder
from nearcast.sim.workers import SimWorkers, TakesS
from nearcast.transport.crew import Crew
from nearcast.wire.dialect import Dialect

BUS = "bus"
DIALECT = Dialect(b"virtual")


@dataclass(slots=True)
class SimClient:
    process: Process
    client: Client
    subscriptions: dict[int, Subscription] = field(default_factory=dict)


class Deployment:
    """`network` has the faults of wires and servers; the methods here start, stop and crash nearcast's processes."""

    def __init__(
        self,
        network: Network,
        brokers: tuple[str, ...],
        *,
        timing: Timing,
        rules: Rules = ALL_ON,
        rng: random.Random,
        skewed: bool = False,
        history: History | None = None,
        surveyed: bool = False,
        takes_s: TakesS = lambda _job: 0.01,
    ) -> None:
        """With `surveyed`, clients count, everybody finds out where it is, and agents report. `takes_s`: how long the
        processors of topics take.
        """
        self.network = network
        self.history = History() if history is None else history
        self.ring = Ring(brokers)
        self.agents: dict[str, Agent] = {}
        self.coordinators: dict[str, Coordinator] = {}
        self.clients: dict[str, SimClient] = {}
        self._timing = timing
        self._rules = rules
        self._rng = rng
        self._skewed = skewed
        self._surveyed = surveyed
        self._takes_s = takes_s
        self.buried: list[tuple[str, Bury]] = []
        self._incarnations = 0
        self._crew = Crew()
        self._clock = network.start_process("observer").clock
        self._files = (BUS, *brokers)  # what every process knows from its start
        self.provisioner = SimProvisioner(self._clock, random.Random(0), self._rent, self._release)
        self.on_rent: Callable[[str], None] = lambda _broker: None
        self._recorder = Recorder(self.history, self._clock.now)
        network.add_broker(BUS)
        for broker in brokers:
            network.add_broker(broker)

    @property
    def now(self) -> float:
        return self._clock.now()

    async def sleep(self, delay_s: float) -> None:
        await self._clock.sleep(delay_s)

    # Agents and coordinators

    def start_agent(self, broker: str) -> Agent:
        process = self._process(f"agent-{broker}")
        self._incarnations += 1
        connect = Acquainted(process.connect, (*self._files, broker))
        agent = Agent(
            broker,
            connect,
            self.ring,
            bus=BUS,
            incarnation=self._incarnations,
            dialect=DIALECT,
            clock=process.clock,
            timing=self._timing,
            rules=self._rules,
            learn=connect.learn,
            analyzer=Analyzer(broker) if self._surveyed else None,
            pace=AGENT_PACE if self._surveyed else None,
            chance=process.rng.random,
            workers=SimWorkers(process.clock, self._takes_s),
            bury=lambda topic, dead: self.buried.append((topic, dead)),
        )
        self.agents[broker] = agent
        agent.start()
        return agent

    def _rent(self, broker: str) -> None:
        self.network.add_broker(broker)
        self.start_agent(broker)
        self.on_rent(broker)

    def _release(self, broker: str) -> None:
        """Its agent, if it runs, ends in order; nobody reaches the server any more."""
        agent = self.agents.pop(broker, None)
        if agent is not None:
            self.network.crash_process(f"agent-{broker}")
            self._crew.start(agent.abandon(), f"end of the agent of {broker}")
        self.network.remove_broker(broker)

    async def crash_agent(self, broker: str) -> None:
        self.network.crash_process(f"agent-{broker}")
        await self.agents.pop(broker).abandon()

    def start_coordinator(
        self, name: str, loop: LoopSettings | None = None, homes: HomesSettings | None = None
    ) -> Coordinator:
        process = self._process(name)
        coordinator = Coordinator(
            name,
            process.connect,
            process.store,
            self.ring,
            bus=BUS,
            dialect=DIALECT,
            clock=process.clock,
            timing=self._timing,
            rules=self._rules,
            on_move=lambda topic, epoch, phase: self.history.moved(self.now, topic, epoch, phase),
            loop=loop,
            fleet=replace(Fleet.of(self.ring), provisioner=self.provisioner),
            homes=homes,
            chance=process.rng.random,
        )
        self.coordinators[name] = coordinator
        coordinator.start()
        return coordinator

    async def crash_coordinator(self, name: str) -> None:
        self.network.crash_process(name)
        await self.coordinators.pop(name).abandon()

    @property
    def leader(self) -> Coordinator | None:
        return next((each for each in self.coordinators.values() if each.leading), None)

    # Clients

    def start_client(self, name: str, *, gateway: str = "") -> SimClient:
        process = self._process(name)
        connect = Acquainted(process.connect, self._files)
        client = Client(
            name,
            connect,
            self.ring,
            dialect=DIALECT,
            clock=process.clock,
            timing=self._timing,
            rules=self._rules,
            rng=process.rng,
            learn=connect.learn,
            count_every_s=1.0 if self._surveyed else None,
            pace=CLIENT_PACE if self._surveyed else None,
            gateway=gateway,
            seeks_home=self._surveyed,
        )
        self.clients[name] = simulated = SimClient(process, client)
        return simulated

    async def crash_client(self, name: str) -> None:
        crashed = self.clients.pop(name)
        self.network.crash_process(name)
        for subscription_id in crashed.subscriptions:
            self.history.crashed(self.now, subscription_id)
        await crashed.client.abandon()

    async def stop_client(self, name: str) -> None:
        stopped = self.clients.pop(name)
        for subscription_id in stopped.subscriptions:
            self.history.unsubscribe_begun(self.now, subscription_id)
        await stopped.client.close()
        for subscription_id in stopped.subscriptions:
            self.history.unsubscribe_closed(self.now, subscription_id)
        await self.sleep(1.0)  # what was handed over is on its way
        self.network.crash_process(name)

    async def publish(self, sender: SimClient, topic: str, payload: bytes, *, timeout_s: float = 60.0) -> None:
        await self._recorder.publish(sender.client, topic, payload, timeout_s=timeout_s)

    async def subscribe(
        self, receiver: SimClient, topic: str, *, also: Callable[[int, Message], None] | None = None
    ) -> int | None:
        """The subscription's number; None when the client was stopped before it was subscribed: nothing is owed.

        `also` is told of every message, as `Recorder.subscribe` says.
        """
        skew = receiver.process.clock.skew
        made = await self._recorder.subscribe(
            receiver.client, topic, lambda what: self._in_run_time(what, skew), also=also
        )
        if made is None:
            return None
        number, receiver.subscriptions[made[0]] = made
        return number

    def leave(self, receiver: SimClient, number: int) -> None:
        self.history.unsubscribe_begun(self.now, number)
        receiver.subscriptions.pop(number).close()
        self.history.unsubscribe_closed(self.now, number)

    # Within

    def _process(self, name: str) -> Process:
        rng = self._rng
        skew = Skew()
        if self._skewed:
            drift = rng.uniform(-1e-4, 1e-4)
            skew = Skew(rng.uniform(-5, 5), drift, rng.uniform(0, 1e6), drift)
        return self.network.start_process(name, skew=skew, confirm=self._rules.confirm)

    @staticmethod
    def _in_run_time(what: Gap | Discontinuity, skew: Skew) -> Gap | Discontinuity:
        if isinstance(what, Gap):
            return what

        def run_s(wall_s: float) -> float:
            return (wall_s - WALL_AT_START_S - skew.wall_offset_s) / (1.0 + skew.wall_drift)

        to_s = None if what.to_s is None else run_s(what.to_s)
        return Discontinuity(what.topic, what.broker, run_s(what.from_s), to_s)
