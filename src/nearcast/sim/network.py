"""Processes, brokers and a store with wires between them, and everything that can go wrong there.

All faults are methods, and act at once. What is not said by a method, a seed decides.
"""

import random
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from nearcast.brokers.link import Connect
from nearcast.brokers.memory import MemoryConnect, Patience
from nearcast.brokers.memory_pipe import Wire
from nearcast.brokers.memory_server import ClientEnd, Connection, MemoryBroker, ServerCosts
from nearcast.domain.errors import LinkDown
from nearcast.sim.clock import SimClock, Skew
from nearcast.store.memory import MemoryStore, MemoryStoreHandle

STORE = "store"  # The store's name in a partition.


@dataclass(frozen=True, slots=True)
class Process:
    """One simulated process, from its start to its crash: what it is given to live on."""

    name: str
    site: str
    clock: SimClock
    connect: Connect
    store: MemoryStoreHandle
    rng: random.Random  # Of its own, so that what one process draws does not shift what others draw.


class Network:
    """Holds brokers and processes by name; the two share one space of names."""

    def __init__(
        self,
        rng: random.Random,
        *,
        wire: Wire | None = None,
        costs: ServerCosts | None = None,
        store_delay_s: float = 0.0,
    ) -> None:
        self.brokers: dict[str, MemoryBroker] = {}
        self.processes: dict[str, Process] = {}
        self.store = MemoryStore(SimClock(), store_delay_s)
        self._rng = rng
        self._wire = wire or Wire()
        self._costs = costs or ServerCosts()
        self._sites: dict[str, str] = {}
        self._wires: dict[tuple[str, str], Wire] = {}
        self._refused: dict[tuple[str, str], None] = {}
        self._groups: dict[str, int] = {}

    # Members

    def add_broker(self, name: str, *, site: str = "", costs: ServerCosts | None = None) -> MemoryBroker:
        self._must_be_new(name)
        broker = MemoryBroker(name, _fork(self._rng), costs or self._costs)
        self.brokers[name] = broker
        self._sites[name] = site
        return broker

    def remove_broker(self, name: str) -> None:
        """For good: connections break, and there is nothing any more at its address."""
        self.brokers.pop(name).crash()
        self._groups.pop(name, None)

    def start_process(
        self,
        name: str,
        *,
        site: str = "",
        skew: Skew | None = None,
        confirm: bool = True,
        patience: Patience | None = None,
    ) -> Process:
        """A new process; after a crash, the same name may be started again."""
        self._must_be_new(name)
        clock = SimClock(skew)
        rng = _fork(self._rng)

        def dial(broker: str, client: ClientEnd) -> Connection:
            return self._dial(process, broker, client)

        connect = MemoryConnect(dial, clock, rng, confirm=confirm, patience=patience)
        process = Process(name, site, clock, connect, self.store.handle(clock), rng)
        self.processes[name] = process
        self._sites[name] = site
        self._cut_off_from_store(process)
        return process

    def connector(self, process: str, *, site: str = "", confirm: bool = True) -> Connect:
        """What `process` connects by; it is started if it is not there yet."""
        known = self.processes.get(process)
        return (known or self.start_process(process, site=site, confirm=confirm)).connect

    def reaches(self, one: str, other: str) -> bool:
        """Whether nothing that was ordered here keeps the two apart."""
        if (one, other) in self._refused or (other, one) in self._refused:
            return False
        group, other_group = self._groups.get(one), self._groups.get(other)
        return group is None or other_group is None or group == other_group

    # Wires

    def set_wire(self, one: str, other: str, wire: Wire) -> None:
        """Between a process and a broker, or between the sites of both; for connections that are up, too."""
        self._wires[one, other] = self._wires[other, one] = wire
        for connection in self._connections():
            connection.set_wire(self.wire(connection.peer, connection.broker.name))

    def wire(self, process: str, broker: str) -> Wire:
        by_site = self._wires.get((self._sites[process], self._sites[broker]), self._wire)
        return self._wires.get((process, broker), by_site)

    # Faults of connections

    def cut(self, process: str, broker: str) -> None:
        """Break the connections between the two; the process may connect again."""
        for connection in self._connections(process, broker):
            connection.sever(f"cut between {process} and {broker}")

    def refuse(self, process: str, broker: str) -> None:
        """As `cut`, and no new connection comes about until `heal()`. The broker may be the STORE."""
        self._refused[process, broker] = None
        self._enforce()

    def partition(self, groups: Iterable[Collection[str]]) -> None:
        """Members of different groups lose each other until `heal()`; who is in no group reaches everybody."""
        self._groups = {}
        for number, group in enumerate(groups):
            for name in group:
                if self._groups.setdefault(name, number) != number:
                    raise ValueError(f"partition: {name!r} is in two groups")
                if name not in self.brokers and name not in self.processes and name != STORE:
                    raise ValueError(f"partition: {name!r} is neither a broker nor a process nor {STORE!r}")
        self._enforce()

    def heal(self) -> None:
        """End every partition and refusal."""
        self._groups = {}
        self._refused = {}
        self._enforce()

    # Faults of brokers

    def crash_broker(self, broker: str) -> None:
        self.brokers[broker].crash()

    def restart_broker(self, broker: str) -> None:
        """With nothing: no connection and no subscription is left from before."""
        self.brokers[broker].restart()

    def pause_broker(self, broker: str) -> None:
        self.brokers[broker].pause()

    def resume_broker(self, broker: str) -> None:
        self.brokers[broker].resume()

    # Faults of processes

    def pause_process(self, process: str) -> None:
        """Stop it: no timer fires, nothing is received, and what it still hands over stays with it. Time goes on."""
        self.processes[process].clock.pause()
        for connection in self._connections(process):
            connection.up.stop_sending()
            connection.down.stop_reading()

    def resume_process(self, process: str) -> None:
        """Let it go on. Whether it sees its timers or its messages first is left to chance, as on a real machine."""
        clock = self.processes[process].clock
        timers_first = self._rng.random() < 0.5
        if timers_first:
            clock.resume()
        for connection in self._connections(process):
            connection.up.send_on()
            connection.down.read_on()
        if not timers_first:
            clock.resume()

    def crash_process(self, process: str) -> None:
        """It is gone, without a goodbye, and with all that it had not sent. Who runs its tasks cancels them."""
        crashed = self.processes.pop(process)
        crashed.clock.stop()
        crashed.store.down = True
        for connection in self._connections(process):
            connection.abandon()

    # Within

    def _dial(self, process: Process, name: str, client: ClientEnd) -> Connection:
        broker = self.brokers.get(name)
        if broker is None:
            raise LinkDown(f"there is no broker {name!r}; this network has {', '.join(sorted(self.brokers))}")
        if self.processes.get(process.name) is not process:
            raise LinkDown(f"{process.name} has crashed, and connects to nothing")
        if not self.reaches(process.name, name):
            raise LinkDown(f"{process.name} cannot reach broker {name!r} now")
        connection = broker.accept(process.name, self.wire(process.name, name), process.rng, client)
        if process.clock.paused:
            connection.up.stop_sending()
            connection.down.stop_reading()
        return connection

    def _connections(self, process: str | None = None, broker: str | None = None) -> Iterator[Connection]:
        for one in self.brokers.values():
            if broker is None or one.name == broker:
                for connection in list(one.connections.values()):
                    if process is None or connection.peer == process:
                        yield connection

    def _enforce(self) -> None:
        for connection in self._connections():
            if not self.reaches(connection.peer, connection.broker.name):
                connection.sever(f"{connection.peer} and {connection.broker.name} are cut off from each other")
        for process in self.processes.values():
            self._cut_off_from_store(process)

    def _cut_off_from_store(self, process: Process) -> None:
        process.store.down = not self.reaches(process.name, STORE)

    def _must_be_new(self, name: str) -> None:
        if name in self.brokers or name in self.processes or name == STORE:
            raise ValueError(f"the name {name!r} is taken in this network")


def _fork(rng: random.Random) -> random.Random:
    return random.Random(rng.getrandbits(64))
