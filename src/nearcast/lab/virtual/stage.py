"""What scenarios in virtual time have in common: a fleet and its promises, clients, and what those who listen hear."""

import random
import struct
from collections.abc import Callable, Mapping

import msgspec

from nearcast.brokers.memory import Wire
from nearcast.control.loop import LoopSettings
from nearcast.control.timing import Timing
from nearcast.coordinator import Operator
from nearcast.domain.message import Message
from nearcast.domain.slo import Slo
from nearcast.lab.experiment import Progress
from nearcast.lab.heard import Heard
from nearcast.lab.promised import Observed, migrations
from nearcast.sim.deployment import BUS, DIALECT, Deployment, SimClient
from nearcast.sim.network import Network
from nearcast.sim.running import Running
from nearcast.transport.crew import Crew

_WARM_UP_S = 60.0  # coordinates are found meanwhile
_RUN_IN_S = 10.0  # topics find their brokers meanwhile
_SETTLE_S = 30.0
_GRACE_S = 3.0
_STORE_S = 0.001
_LAN_S = 0.0005
_COORDINATOR, _OPERATOR = "coordinator", "operator"
_SENT = struct.Struct("<d")  # when a message was sent, by the clock of the run


def loop_of(table: Mapping[str, str | float]) -> LoopSettings:
    """From the table `[rebalance]` of a configuration."""
    return msgspec.convert(dict(table), LoopSettings)


class Stage:
    """`lines` are what is heard apart. Times of what is observed are from `begun_s` on: some time after `begin`, when
    topics have found their brokers."""

    def __init__(self, brokers: tuple[str, ...], lines: tuple[str, ...], window_s: float, rng: random.Random) -> None:
        """To be made on the loop of the run."""
        self.heard = Heard(lines, window_s)
        self.crew = Crew()
        self.rng = rng
        self.begun_s = 0.0
        self.end_s = 0.0
        self._history = Running(grace_s=_GRACE_S)
        network = Network(random.Random(rng.getrandbits(64)), store_delay_s=_STORE_S)
        self.fleet = Deployment(network, brokers, timing=Timing(), rng=rng, history=self._history, surveyed=True)

    async def set_up(
        self,
        between_s: Callable[[int, int], float],
        bus_s: Callable[[int], float],
        loop: LoopSettings,
        promises: Mapping[str, Slo],
    ) -> None:
        """Agents and a coordinator: `between_s` the sites of two brokers, `bus_s` from one to the control plane."""
        fleet, brokers = self.fleet, self.fleet.ring.brokers
        fleet.network.set_wire(_COORDINATOR, BUS, Wire(_LAN_S))
        for one, broker in enumerate(brokers):
            fleet.network.set_wire(f"agent-{broker}", BUS, Wire(bus_s(one)))
            for other, name in enumerate(brokers):
                fleet.network.set_wire(f"agent-{broker}", name, Wire(_LAN_S if one == other else between_s(one, other)))
            fleet.start_agent(broker)
        fleet.start_coordinator(_COORDINATOR, loop)
        await fleet.sleep(_WARM_UP_S)
        fleet.network.set_wire(_OPERATOR, BUS, Wire(_LAN_S))
        async with Operator(_OPERATOR, fleet.network.connector(_OPERATOR), bus=BUS, dialect=DIALECT) as operator:
            for topic, slo in promises.items():
                await operator.promise(topic, slo)

    def place(self, client: str, way_s: Callable[[int], float]) -> None:
        """From now on the client is so far from each broker."""
        for number, broker in enumerate(self.fleet.ring.brokers):
            self.fleet.network.set_wire(client, broker, Wire(way_s(number)))

    async def listen(self, client: SimClient, topic: str, line: str) -> int:
        """The number of the subscription."""
        heard, now = self.heard[line], client.process.clock.now

        def also(_number: int, message: Message) -> None:
            (sent_s,) = _SENT.unpack_from(message.payload)
            heard(sent_s - self.begun_s, now() - sent_s)

        number = await self.fleet.subscribe(client, topic, also=also)
        assert number is not None
        return number

    async def publish(self, client: SimClient, topic: str, rate_hz: float, size_bytes: int) -> None:
        """Until the end, by a schedule of its own."""
        fleet, every_s, rest = self.fleet, 1 / rate_hz, bytes(size_bytes - _SENT.size)
        due_s = fleet.now + self.rng.random() * every_s
        while due_s < self.end_s:
            await fleet.sleep(due_s - fleet.now)
            await fleet.publish(client, topic, _SENT.pack(fleet.now) + rest)
            due_s += every_s

    def begin(self, run_s: float, progress: Progress) -> None:
        self.begun_s = self.fleet.now + _RUN_IN_S
        self.end_s = self.begun_s + run_s
        self.crew.start(self._tell(int(run_s), progress), "progress")

    async def until(self, at_s: float) -> None:
        """A time of the run."""
        await self.fleet.sleep(max(0.0, self.begun_s + at_s - self.fleet.now))

    async def observed(self) -> Observed:
        """Everything has come by then."""
        await self.fleet.sleep(max(0.0, self.end_s - self.fleet.now) + _SETTLE_S)
        self._history.finished(self.fleet.now)
        await self.crew.close()
        moved = migrations((kind, at_s - self.begun_s, *rest) for kind, at_s, *rest in self._history.events)
        return Observed(self.heard, moved, self._history.counts(), whole=self.heard)

    async def _tell(self, whole: int, progress: Progress) -> None:
        await self.until(0.0)
        for second in range(whole):
            progress(second, whole, "seconds")
            await self.fleet.sleep(1.0)
