"""How the leader gives homes: to who comes, to who is there, and to who must leave."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from nearcast.control.rehoming import HomesSettings
from nearcast.control.timing import Timing
from nearcast.coordinator.agents import Agents
from nearcast.coordinator.homes import SubscriberHomes
from nearcast.domain.broker import Book
from nearcast.domain.load import BrokerReport
from nearcast.domain.plan import HomeStep, Plan
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.settings import Balancing, Settings
from nearcast.transport.clock import Cancellable
from nearcast.transport.crew import Crew
from nearcast.wire.channels import AtHome, Near, Rehome, Resident
from nearcast.wire.control import Alive
from nearcast.wire.homes import HomesOrder

NAMES = ("b1", "b2", "b3")
TIMING = Timing()
SETTINGS = Settings(balancing=Balancing(alpha=0.1, beta_bytes_per_s=1.0))


class StoppedClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def now(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Cancellable:
        raise NotImplementedError

    async def sleep(self, delay_s: float) -> None:
        raise NotImplementedError


@dataclass
class Brokers:
    present: tuple[str, ...] = NAMES
    draining: tuple[str, ...] = ()

    def gone(self, broker: str) -> bool:
        return broker not in (*self.present, *self.draining)


@dataclass
class Fleet:
    """A leader, as homes need it; what it says is kept."""

    clock: StoppedClock = field(default_factory=StoppedClock)
    brokers: Brokers = field(default_factory=Brokers)
    timing: Timing = TIMING
    agents: Agents = field(default_factory=lambda: Agents(TIMING))
    book: Book = field(default_factory=dict)
    leading: bool = True
    said: list[tuple[str, Rehome]] = field(default_factory=list)

    def begin(self, settings: HomesSettings, chance: float = 0.0) -> SubscriberHomes:
        for name in self.brokers.present:
            self.agents.heard(Alive(name, 1, 0.0, 0), self.clock.now())
        self.homes = SubscriberHomes(
            self,  # type: ignore[arg-type]  # its brokers are only what is asked of them here
            settings,
            SETTINGS,
            clock=self.clock,
            crew=Crew(),
            chance=lambda: chance,
        )
        return self.homes

    def say(self, broker: str, message: Rehome) -> None:
        self.said.append((broker, message))

    def snapshot(self, planned_s: float | None) -> Snapshot:
        reports = [BrokerReport(name, self.clock.now(), 0.0, 1e6) for name in self.brokers.present]
        found = Snapshot.of(reports, {}, Ring(NAMES), at_s=self.clock.now(), draining=self.brokers.draining)
        return replace(found, planned_s=planned_s, homes=self.homes.seen(found.brokers))

    def moves(self) -> dict[str, tuple[str, str]]:
        """Who was told where to go: (from, to)."""
        found = {client: (broker, home) for broker, message in self.said for client, home in message.moves}
        self.said.clear()
        return found


def at_home(
    broker: str, *clients: str, parts: int = 1, near: Near = (), rate: float = 100.0, number: int = 1
) -> AtHome:
    residents = tuple(Resident(client, (0,), near) for client in clients)
    return AtHome(broker, number, parts, (("k1", rate),), residents)


def ready(settings: HomesSettings, *at_b1: str, chance: float = 0.0) -> Fleet:
    """All agents have reported, and those who were there are at home at b1."""
    fleet = Fleet()
    homes = fleet.begin(settings, chance)
    for name in NAMES:
        homes.heard(at_home(name, *(at_b1 if name == "b1" else ())))
    assert fleet.moves() == {}, "who is there stays"
    return fleet


def test_by_default_everybody_stays_where_it_came() -> None:
    fleet = ready(HomesSettings())
    fleet.homes.heard(at_home("b1", "ann", "bob", parts=0))
    fleet.homes.look()
    assert fleet.moves() == {}


@pytest.mark.parametrize(
    ("placement", "chance", "expected"),
    [
        ("round-robin", 0.0, ["b1", "b2", "b3", "b1"]),
        ("random", 0.9, ["b3", "b3", "b3", "b3"]),
        ("least-loaded", 0.0, ["b2", "b2", "b2", "b2"]),
    ],
)
def test_who_comes_is_placed(placement: str, chance: float, expected: list[str]) -> None:
    fleet = ready(HomesSettings(placement), "old", chance=chance)
    for client in ("ann", "bob", "cid", "dan"):
        fleet.homes.heard(at_home("b1", client, parts=0))
    moves = fleet.moves()
    assert [moves.get(client, ("", "b1"))[1] for client in ("ann", "bob", "cid", "dan")] == expected


def test_the_nearest_waits_until_it_is_known_and_not_for_ever() -> None:
    fleet = ready(HomesSettings("nearest"))
    fleet.homes.heard(at_home("b1", "ann", "bob", parts=0))
    assert fleet.moves() == {}
    fleet.homes.heard(at_home("b1", "ann", parts=0, near=(("b9", 0.001), ("b3", 0.002), ("b2", 0.003))))
    assert fleet.moves() == {"ann": ("b1", "b3")}, "b9 is no broker of ours"
    fleet.clock.now_s += TIMING.absent_s
    for number, name in enumerate(NAMES):
        fleet.homes.heard(at_home(name, *(("bob",) if not number else ()), number=2))
    assert fleet.moves() == {"bob": ("b1", "b2")}, "by turns"


def test_nobody_is_placed_before_every_agent_has_reported() -> None:
    fleet = Fleet()
    homes = fleet.begin(HomesSettings("round-robin"))
    homes.heard(at_home("b2"))
    homes.heard(at_home("b3"))
    homes.heard(at_home("b2", "ann", parts=0))
    assert (fleet.moves(), homes.unheard()) == ({}, ["b1"])
    homes.heard(at_home("b1"))
    assert fleet.moves() == {"ann": ("b2", "b1")}


def test_an_agent_that_is_away_is_not_waited_for_and_gets_nobody() -> None:
    fleet = Fleet()
    homes = fleet.begin(HomesSettings("round-robin", every_s=1.0))
    fleet.clock.now_s += 2 * TIMING.lease_s
    for name in ("b2", "b3"):
        fleet.agents.heard(Alive(name, 1, 0.0, 0), fleet.clock.now())
    assert fleet.agents.lost(fleet.clock.now()) == ["b1"]
    for name in ("b2", "b3"):
        homes.heard(at_home(name))
    homes.heard(at_home("b3", "ann", parts=0))
    assert fleet.moves() == {"ann": ("b3", "b2")}


def test_loads_are_evened_out_as_often_as_is_set() -> None:
    people = [f"c{number}" for number in range(6)]
    fleet = ready(HomesSettings(every_s=10.0), *people)
    fleet.homes.look()
    assert fleet.moves() == {}, "it is not time yet"
    fleet.clock.now_s += 10.0
    fleet.homes.look()
    moves = fleet.moves()
    assert sorted(to for _, to in moves.values()) == ["b2", "b2", "b3", "b3"]
    assert {was for was, _ in moves.values()} == {"b1"}
    told = fleet.homes.answer(HomesOrder("op", 1))
    assert [(each.subscribers, each.keys, each.load_bytes_per_s) for each in told.brokers] == [
        (6, 1, 700.0),
        (0, 0, 0.0),
        (0, 0, 0.0),
    ]
    assert (told.subscribers, told.keys, told.moving, told.policy) == (6, 1, 4, "bad-ldm")
    assert told.cov == pytest.approx(2**0.5)


def test_loads_are_not_evened_out_before_every_agent_has_reported() -> None:
    fleet = Fleet()
    homes = fleet.begin(HomesSettings(every_s=10.0))
    homes.heard(at_home("b1", "ann", "bob", "cid"))
    homes.heard(at_home("b2"))
    fleet.clock.now_s += 10.0
    homes.look()
    assert (fleet.moves(), homes.unheard()) == ({}, ["b3"])
    homes.heard(at_home("b3"))
    homes.look()
    assert len(fleet.moves()) == 2


def test_who_was_told_is_told_again_until_it_has_arrived() -> None:
    fleet = ready(HomesSettings(every_s=10.0), "ann", "bob")
    fleet.clock.now_s += 10.0
    fleet.homes.look()
    ((client, (was, to)),) = fleet.moves().items()
    fleet.clock.now_s += 2.0
    fleet.homes.look()
    assert fleet.moves() == {client: (was, to)}
    fleet.homes.heard(at_home(to, client, parts=0))
    fleet.homes.heard(AtHome(was, 1, 0, left=(client,)))
    fleet.clock.now_s += 2.0
    fleet.homes.look()
    assert fleet.moves() == {}


@pytest.mark.parametrize("every_s", [0.0, 10.0])
def test_the_subscribers_of_a_broker_that_is_drained_leave_it(every_s: float) -> None:
    fleet = ready(HomesSettings(every_s=every_s), "ann", "bob")
    fleet.brokers.present, fleet.brokers.draining = ("b2", "b3"), ("b1",)
    fleet.homes.look()
    assert sorted(fleet.moves().values()) == [("b1", "b2"), ("b1", "b3")]


def test_a_client_with_subscriptions_at_two_brokers_is_brought_together() -> None:
    fleet = ready(HomesSettings(every_s=10.0))
    for name, keys in (("b2", (0, 1)), ("b3", (0,))):
        fleet.homes.heard(AtHome(name, 2, 1, (("k1", 0.0), ("k2", 0.0)), (Resident("ann", keys),)))
    fleet.clock.now_s += 10.0
    for name in NAMES:
        fleet.homes.heard(AtHome(name, 2, 0))
    fleet.homes.look()
    assert fleet.moves() == {"ann": ("b3", "b2")}


def test_where_a_broker_is_that_came_later_is_said_too() -> None:
    fleet = ready(HomesSettings(), "ann")
    fleet.book = {"b2": "nats://somewhere"}
    fleet.homes.carry_out(Plan("test", 0.0, homes=(HomeStep("ann", "b2", "b1", "to see"),)))
    ((broker, message),) = fleet.said
    assert (broker, message) == ("b1", Rehome((("ann", "b2"),), (("b2", "nats://somewhere"),)))
    assert fleet.homes.left([HomeStep("ann", "b2", "b1", "to see")]) == 1


def test_one_who_no_longer_leads_knows_nothing_and_says_nothing() -> None:
    fleet = ready(HomesSettings(every_s=10.0), "ann", "bob", "cid")
    fleet.clock.now_s += 10.0
    fleet.homes.forget()
    fleet.homes.look()
    assert fleet.moves() == {}
    assert sorted(fleet.homes.unheard()) == list(NAMES)
    assert fleet.snapshot(None).homes is None
