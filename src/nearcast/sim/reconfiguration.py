"""Random moves and strategy changes under traffic, with clients that come and go and change their homes, and optionally
faults: one seed.
"""

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from nearcast.brokers.memory import ServerCosts, Wire
from nearcast.control.move import SAME
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.timing import Timing
from nearcast.domain.errors import ConfigError, LeaseLost, MoveRefused
from nearcast.domain.processor import Language, Processor
from nearcast.domain.route import Delegation, Strategy
from nearcast.sim.deployment import Deployment, SimClient
from nearcast.sim.elastic import Elastic
from nearcast.sim.history import History
from nearcast.sim.loop import run_virtual
from nearcast.sim.network import Network
from nearcast.transport.crew import Crew

TIMING = Timing(
    lease_s=6.0, linger_s=0.5, patience_s=2.0, merge_s=0.05, retry_s=1.0, beat_s=1.0, idle_s=0.5, transit_s=2.0
)

_DELAYS_S = (0.001, 0.01, 0.05, 0.2)
_BURSTS = (1, 2, 8, 20)
_HOMED = 0.7  # the share of moves to homed routes, where it is about them
_TAKES_S = (0.001, 0.01, 0.05)
_CODE = "nearcast.processing.samples:passed_on"
_PROCESSORS = (SAME, None, Processor(Language.PYTHON, _CODE), Processor(Language.PYTHON, _CODE, spool=2))


def grace_s(faults: bool) -> float:
    """How long a message may be on its way to a subscription that leaves: the slowest path, or the longest fault."""
    return 20.0 if faults else 3.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How large one seed is. `settle_s` is long enough for every timer of the protocol to run out.

    With faults, `fault_settle_s` comes on top: the longest fault may begin in the last moment. `elastic`: servers are
    rented, drained and released meanwhile; `elastic_settle_s` is long enough for a last drain. `processed`: topics get
    processors, others and none, as they move. `homed`: most routes are homed, and some homes delegate to others.
    Clients change their homes in any case.
    """

    brokers: int = 4
    topics: int = 20
    clients: int = 50
    run_s: float = 14.0
    settle_s: float = 12.0
    fault_settle_s: float = 20.0
    burst_every_s: float = 5.0
    move_every_s: float = 0.4
    churn_every_s: float = 0.8
    fault_every_s: float = 2.0
    elastic: bool = False
    elastic_every_s: float = 1.5
    processed: bool = False
    homed: bool = False
    rehome_every_s: float = 0.5
    elastic_settle_s: float = 24.0


HOMED = Scale(brokers=4, topics=4, clients=14, run_s=10.0, move_every_s=1.2, homed=True, rehome_every_s=0.1)
"""Topics rest for long enough that homes change both while they do and while they move."""


def homed_scale(seed: int) -> Scale:
    """In every second seed topics are processed."""
    return replace(HOMED, processed=bool(seed % 2))


def run_seed(seed: int, *, faults: bool, rules: Rules = ALL_ON, scale: Scale | None = None) -> History:
    """The history of one seed, the same in every process."""
    return run_virtual(_Run(seed, faults, rules, scale or Scale()).play(), seed=seed)


class _Run:
    def __init__(self, seed: int, faults: bool, rules: Rules, scale: Scale) -> None:
        self.rng = random.Random(seed)
        self.faults = faults
        self.rules = rules
        self.scale = scale
        self.topics = [f"topic{number}" for number in range(scale.topics)]
        self.brokers = tuple(f"b{number}" for number in range(scale.brokers))
        self.names = 0
        self.crew = Crew()
        self.over = False
        self.elastic: Elastic | None = None

    async def play(self) -> History:
        rng, scale = self.rng, self.scale
        wire = Wire(delay_s=rng.choice((0.001, 0.01)), jitter_s=rng.choice((0.0, 0.005, 0.05)))
        costs = ServerCosts(delivery_s=rng.choice((0.0, 0.0002)), spread=3.0)
        network = Network(random.Random(rng.getrandbits(64)), wire=wire, costs=costs, store_delay_s=0.005)
        times = random.Random(rng.getrandbits(64)) if scale.processed else random.Random(0)
        self.deployment = deployment = Deployment(
            network,
            self.brokers,
            timing=TIMING,
            rules=self.rules,
            rng=rng,
            skewed=self.faults,
            takes_s=lambda _job: times.choice(_TAKES_S),
        )
        for broker in self.brokers:
            deployment.start_agent(broker)
            self._spread(f"agent-{broker}")
        for name in ("c0", "c1"):
            deployment.start_coordinator(name)
        await deployment.sleep(3.0)
        for _ in range(scale.clients):
            self._join()
        loops = [self._moves, self._churn, *([self._faults] if self.faults else []), self._rehomes]
        settle_s = scale.settle_s + (scale.fault_settle_s if self.faults else 0.0)
        if scale.elastic:
            self.elastic = Elastic(deployment, random.Random(rng.getrandbits(64)), scale.elastic_every_s, self._rented)
            loops.append(self.elastic.come_and_go)
            settle_s += scale.elastic_settle_s
        for each in loops:
            self.crew.start(each(), each.__name__)
        await deployment.sleep(scale.run_s)
        self.over = True
        if self.elastic is not None:
            self.elastic.over = True
        await deployment.sleep(settle_s)
        deployment.history.finished(deployment.now)
        await self.crew.close()
        return deployment.history

    def _spread(self, process: str) -> None:
        """Every pair of a process and a broker has a distance of its own: what is sent first need not come first."""
        for broker in self._servers():
            wire = Wire(delay_s=self.rng.choice(_DELAYS_S), jitter_s=self.rng.choice((0.0, 0.05)))
            self.deployment.network.set_wire(process, broker, wire)

    def _servers(self) -> tuple[str, ...]:
        return (*self.brokers, *self.deployment.provisioner.rented)

    def _rented(self, broker: str) -> None:
        """A new server is at a distance of its own from everybody, as its agent is from every server."""
        self._spread(f"agent-{broker}")
        for process in list(self.deployment.network.processes):
            self.deployment.network.set_wire(process, broker, Wire(delay_s=self.rng.choice(_DELAYS_S)))

    # Clients

    def _join(self) -> None:
        self.names += 1
        name = f"client{self.names}"
        client = self.deployment.start_client(name)
        self._spread(name)
        self.crew.start(self._live(name, client), name)

    async def _live(self, name: str, client: SimClient) -> None:
        """A client: it subscribes to some topics, publishes on some, changes its mind now and then."""
        rng = random.Random(self.rng.getrandbits(64))
        deployment = self.deployment
        for topic in rng.sample(self.topics, rng.randint(1, 2)):
            self.crew.start(deployment.subscribe(client, topic), f"{name} subscribes to {topic}")
        mine = rng.sample(self.topics, rng.randint(1, 2))
        while not self.over:
            await client.process.clock.sleep(rng.expovariate(1 / self.scale.burst_every_s))
            topic = rng.choice(mine)
            for _ in range(rng.choice(_BURSTS)):
                if not self._goes_on(name, client):
                    return
                await deployment.publish(client, topic, b"x" * 32)
                await client.process.clock.sleep(rng.choice((0.0, 0.01, 0.05)))

    def _goes_on(self, name: str, client: SimClient) -> bool:
        return not self.over and self.deployment.clients.get(name) is client

    async def _churn(self) -> None:
        while not self.over:
            await self.deployment.sleep(self.rng.expovariate(1 / self.scale.churn_every_s))
            action = self.rng.random()
            name = self.rng.choice(list(self.deployment.clients))
            client = self.deployment.clients[name]
            if client.process.clock.paused:
                continue  # who is asleep decides nothing
            if action < 0.4:
                await self.deployment.stop_client(name)
                self._join()
            elif action < 0.7 and client.subscriptions:
                self.deployment.leave(client, self.rng.choice(list(client.subscriptions)))
            else:
                topic = self.rng.choice(self.topics)
                if all(topic != each.topic for each in client.subscriptions.values()):
                    self.crew.start(self._subscribe_if_free(client, topic), f"{name} subscribes to {topic}")

    async def _subscribe_if_free(self, client: SimClient, topic: str) -> None:
        if topic not in client.client.topics:
            await self.deployment.subscribe(client, topic)

    # Moves

    async def _moves(self) -> None:
        while not self.over:
            await self.deployment.sleep(self.rng.expovariate(1 / self.scale.move_every_s))
            leader = self.deployment.leader
            topic = self.rng.choice(self.topics)
            if leader is None or not leader.movable(topic):
                continue
            strategy = self._strategy()
            size = 1 if strategy is Strategy.SINGLE else self.rng.randint(1, 3)
            places = self.brokers if self.elastic is None else leader.brokers.present
            brokers = tuple(sorted(self.rng.sample(places, min(size, len(places)))))
            eager = self.rng.random() < 0.5
            processor = self.rng.choice(_PROCESSORS) if self.scale.processed else SAME
            delegation = self._delegation(strategy, brokers)
            try:
                leader.begin(topic, strategy, brokers, eager=eager, processor=processor, delegation=delegation)
            except (MoveRefused, LeaseLost):
                continue

    def _strategy(self) -> Strategy:
        if self.scale.homed and self.rng.random() < _HOMED:
            return Strategy.HOMED
        return self.rng.choice(list(Strategy))

    def _delegation(self, strategy: Strategy, brokers: tuple[str, ...]) -> Delegation | None:
        """One of several homes is the cloud, and some of the others, or all, delegate to it; or none do."""
        if not self.scale.homed or strategy is not Strategy.HOMED or len(brokers) == 1 or self.rng.random() < 0.5:
            return None
        cloud, *others = self.rng.sample(brokers, len(brokers))
        return Delegation(cloud, tuple(sorted(others[: self.rng.randint(1, len(others))])))

    async def _rehomes(self) -> None:
        """Now and then somebody changes its home, to any broker, whether its topics are there or not."""
        while not self.over:
            await self.deployment.sleep(self.rng.expovariate(1 / self.scale.rehome_every_s))
            client = self.deployment.clients[self.rng.choice(list(self.deployment.clients))]
            if not client.process.clock.paused:
                home = self.rng.choice(self.brokers)
                with suppress(ConfigError):  # it has been drained: the client does not know it any more
                    client.client.set_home(home)
                    self.deployment.history.rehomed(self.deployment.now, client.client.name, home)

    # Faults

    async def _faults(self) -> None:
        kinds: tuple[Callable[[], Awaitable[str]], ...] = (
            self._cut,
            self._broker_crash,
            self._agent_crash,
            self._client_crash,
            self._coordinator_crash,
            self._pause,
            self._partition,
            self._slow_wire,
        )
        while not self.over:
            await self.deployment.sleep(self.rng.expovariate(1 / self.scale.fault_every_s))
            if not self.over:
                await self.rng.choice(kinds)()

    def _note(self, text: str) -> str:
        self.deployment.history.fault(self.deployment.now, text)
        return text

    async def _cut(self) -> str:
        process = self.rng.choice(list(self.deployment.network.processes))
        broker = self.rng.choice((*self._servers(), "bus"))
        self.deployment.network.cut(process, broker)
        return self._note(f"cut {process} from {broker}")

    async def _broker_crash(self) -> str:
        broker = self.rng.choice(self._servers())
        self._note(f"{broker} crashes")
        self.deployment.network.crash_broker(broker)
        await self.deployment.sleep(self.rng.uniform(0.1, 2.0))
        if broker not in self.deployment.network.brokers:
            return self._note(f"{broker} was released meanwhile")
        self.deployment.network.restart_broker(broker)
        return self._note(f"{broker} is back")

    async def _agent_crash(self) -> str:
        broker = self.rng.choice(self._servers())
        self._note(f"agent of {broker} crashes")
        await self.deployment.crash_agent(broker)
        await self.deployment.sleep(self.rng.choice((0.2, 1.0, 9.0)))
        if broker not in self.deployment.network.brokers:
            return self._note(f"{broker} was released meanwhile")
        self.deployment.start_agent(broker)
        return self._note(f"agent of {broker} is back")

    async def _client_crash(self) -> str:
        name = self.rng.choice(list(self.deployment.clients))
        await self.deployment.crash_client(name)
        self._join()
        return self._note(f"{name} crashes")

    async def _coordinator_crash(self) -> str:
        name = self.rng.choice(list(self.deployment.coordinators))
        self._note(f"{name} crashes")
        await self.deployment.crash_coordinator(name)
        await self.deployment.sleep(self.rng.uniform(0.2, 3.0))
        self.deployment.start_coordinator(name)
        return self._note(f"{name} is back")

    async def _pause(self) -> str:
        """Short ones are garbage collection or a busy machine, long ones a suspended one: beyond every lease."""
        process = self.rng.choice([name for name in self.deployment.network.processes if name != "observer"])
        long_s = self.rng.choice((0.3, 2.0, 8.0, 15.0))
        self._note(f"{process} sleeps for {long_s} s")
        self.deployment.network.pause_process(process)
        await self.deployment.sleep(long_s)
        if process in self.deployment.network.processes:
            self.deployment.network.resume_process(process)
        return self._note(f"{process} wakes")

    async def _partition(self) -> str:
        network = self.deployment.network
        members = [*network.processes, *network.brokers, "store"]
        members.remove("observer")
        self.rng.shuffle(members)
        half = members[: self.rng.randint(1, 5)]
        self._note(f"partition: {' '.join(half)} from the rest")
        network.partition([half, [each for each in members if each not in half]])
        await self.deployment.sleep(self.rng.choice((0.5, 3.0, 9.0)))
        network.heal()
        return self._note("healed")

    async def _slow_wire(self) -> str:
        network = self.deployment.network
        process = self.rng.choice(list(network.processes))
        broker = self.rng.choice(self._servers())
        network.set_wire(process, broker, Wire(delay_s=self.rng.choice((0.2, 0.6))))
        return self._note(f"slow wire between {process} and {broker}")
