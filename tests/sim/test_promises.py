"""Promises in virtual time: kept by moving topics, explained afterwards, and known to the next leader.

Brokers and clients stand on a line; positions are milliseconds of one-way latency.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from nearcast.cli.topic.explain import explained
from nearcast.control.loop import LoopSettings
from nearcast.coordinator import Operator
from nearcast.coordinator.decisions import SETTLED_S
from nearcast.coordinator.journal import Journal
from nearcast.coordinator.records import Records
from nearcast.domain.decision import Decision
from nearcast.domain.errors import ConfigError, MoveRefused
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.route import Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot_json import read_snapshot
from nearcast.domain.whereabouts import BrokerPlace, Latencies, Spot, TopicPlace
from nearcast.policies.epulsar import epulsar
from nearcast.policies.settings import Settings
from nearcast.sim.check import CheckResult
from nearcast.sim.deployment import BUS, DIALECT, Deployment
from nearcast.sim.loop import in_virtual_time
from nearcast.wire.loads import Load
from nearcast.wire.places import Placed

StartFleet = Callable[..., Awaitable[Deployment]]
Finish = Callable[[Deployment], Awaitable[CheckResult]]

LINE = {"b0": 0.0, "b1": 50.0, "b2": 100.0}
PROMISE = Slo(95, 40.0)
LOOP = LoopSettings(policy="epulsar", every_s=5.0)


def operator_of(fleet: Deployment) -> Operator:
    return Operator("op", fleet.network.connector("op"), bus=BUS, dialect=DIALECT)


def spot(at_ms: float) -> Spot:
    return Spot((2e-3 * at_ms, 0.0), 0.0)


@dataclass
class Crowd:
    """The clients of topics, each with its publisher and its subscriber at one place. Subscribers are still at the
    brokers in `late`, too; `worst_s`: what is measured, if it is not as they stand.
    """

    fleet: Deployment
    at_ms: dict[str, float]
    brokers: Mapping[str, float] = field(default_factory=lambda: LINE)
    late: tuple[str, ...] = ()
    worst_s: float | None = None
    round: int = 0

    def report(self) -> None:
        """What the agents would say, each of the topics that are routed to its broker."""
        leader = self.fleet.leader
        if leader is None:
            return
        self.round += 1
        where = {
            topic: (move.record.newest.brokers[0] if (move := leader.moves.get(topic)) else leader.ring.owner(topic))
            for topic in self.at_ms
        }
        for broker, line_ms in self.brokers.items():
            here = [topic for topic, at in where.items() if at == broker]
            loads = tuple(TopicLoad(topic, 10.0, 10.0, 1.0, 1.0, 1, 1) for topic in here)
            leader.reports.heard(Load(BrokerReport(broker, self.fleet.now, 1.0, 1e6, loads)), self.fleet.now)
            topics = tuple(self._place(topic, line_ms) for topic in here)
            if broker in self.late and not here:
                topics = tuple(TopicPlace(topic, None, spot(at_ms)) for topic, at_ms in self.at_ms.items())
            leader.placed(Placed(BrokerPlace(broker, spot(line_ms), topics), self.round))

    def _place(self, topic: str, broker_ms: float) -> TopicPlace:
        at_ms = self.at_ms[topic]
        ways_s = 2e-3 * abs(at_ms - broker_ms)
        took = Latencies(100, ways_s, ways_s, ways_s + 1e-3, ways_s + 2e-3)
        return TopicPlace(topic, spot(at_ms), spot(at_ms), 0.0, self.worst_s or 2 * ways_s, took)

    async def go_on(self, seconds: float, every_s: float = 5.0) -> None:
        until_s = self.fleet.now + seconds
        while self.fleet.now < until_s:
            self.report()
            await self.fleet.sleep(min(every_s, until_s - self.fleet.now))

    def broker_of(self, topic: str) -> str:
        assert self.fleet.leader is not None
        (broker,) = self.fleet.leader.moves[topic].record.newest.brokers
        return broker


async def decisions(fleet: Deployment, topic: str) -> tuple[Decision, ...]:
    return await Journal(fleet.network.store.handle(fleet.network.start_process(f"reader at {fleet.now}").clock)).read(
        topic
    )


async def promised(start_fleet: StartFleet, loop: LoopSettings = LOOP, **options: object) -> Deployment:
    fleet = await start_fleet(loop=loop, **options)
    async with operator_of(fleet) as operator:
        await operator.promise("t", PROMISE)
    return fleet


@in_virtual_time
async def test_a_topic_whose_clients_are_far_from_its_broker_is_moved_and_explained_and_nothing_is_lost(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await promised(start_fleet)
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b0",))
    sender, receiver = fleet.start_client("p"), fleet.start_client("s")
    await fleet.subscribe(receiver, "t")
    crowd = Crowd(fleet, {"t": 95.0})
    begun_s = fleet.now
    crowd.report()
    number = 0
    while crowd.broker_of("t") != "b2":
        await fleet.publish(sender, "t", b"%d" % number)
        number += 1
        await fleet.sleep(0.05)
        assert fleet.now < begun_s + 2 * LOOP.every_s
    for _ in range(100):
        await fleet.publish(sender, "t", b"%d" % number)
        number += 1
        await fleet.sleep(0.05)
    await crowd.go_on(40.0)
    (decision,) = await decisions(fleet, "t")
    assert (decision.brokers, decision.was_brokers, decision.policy) == (("b2",), ("b0",), "epulsar")
    assert decision.reason.startswith("its worst case is 190.0 ms, and 40.0 ms are promised; at b2 it is 10.0 ms")
    assert [(each.broker, each.worst_ms) for each in decision.forecast.candidates] == [
        ("b2", 10.0),
        ("b1", 90.0),
        ("b0", 190.0),
    ]
    assert (decision.forecast.feasible, decision.forecast.considered) == (1, 3)
    assert decision.before is not None
    assert decision.before.latency_ms == 191.0
    assert decision.after is not None
    assert decision.after.latency_ms == 11.0
    assert decision.error_ms == pytest.approx(1.0)
    assert decision.told_s is not None
    assert decision.done_s is not None
    assert 0 < decision.told_s < decision.done_s
    text = "\n".join(explained(decision))
    assert "worst case 190.0 ms, promised are p95:40ms: broken" in text
    assert "b2                   10.0 ms  chosen" in text
    assert "predicted worst case 10.0 ms: +1.0 ms; the promise is kept" in text
    result = await finish(fleet)
    assert result.clean, result


@in_virtual_time
async def test_a_promise_is_known_to_the_next_leader_and_so_is_what_was_decided(start_fleet: StartFleet) -> None:
    fleet = await promised(start_fleet, coordinators=("c0", "c1"))
    crowd = Crowd(fleet, {"t": 95.0})
    async with operator_of(fleet) as operator:
        await operator.move("t", Strategy.SINGLE, ("b1",), reason="to try it")
        await operator.promise("u", Slo(99, 10.0))
        await operator.promise("u", None)
        await fleet.crash_coordinator("c0")
        await fleet.sleep(20.0)
        await crowd.go_on(20.0)
        standings = {each.topic: each for each in (await operator.standings()).topics}
        assert list(standings) == ["t"]
        assert standings["t"].slo == "p95:40ms"
        assert (standings["t"].worst_ms, standings["t"].measured_ms, standings["t"].kept) == (10.0, 11.0, True)
    first, second = await decisions(fleet, "t")
    assert (first.policy, first.reason, first.brokers) == ("operator", "asked for by operator op: to try it", ("b1",))
    assert (second.policy, second.was_brokers, second.brokers) == ("epulsar", ("b1",), ("b2",))
    stored = Records(fleet.network.store.handle(fleet.network.start_process("looker").clock))
    await stored.load()
    assert stored.promises == {"t": PROMISE}


@in_virtual_time
async def test_a_move_under_way_when_its_leader_dies_is_explained_to_its_end_by_the_next(
    start_fleet: StartFleet,
) -> None:
    fleet = await promised(start_fleet, coordinators=("c0", "c1"))
    assert fleet.leader is not None
    crowd = Crowd(fleet, {"t": 95.0})
    await fleet.leader.move("t", Strategy.SINGLE, ("b0",))
    await crowd.go_on(2.0, every_s=1.0)
    assert crowd.broker_of("t") == "b2"
    await fleet.crash_coordinator("c0")
    await fleet.sleep(20.0)
    await crowd.go_on(40.0)
    (decision,) = await decisions(fleet, "t")
    assert decision.done_s is not None
    assert decision.after is not None
    assert decision.after.latency_ms == 11.0


@in_virtual_time
async def test_while_the_store_is_down_decisions_wait_and_none_is_lost(start_fleet: StartFleet) -> None:
    fleet = await promised(start_fleet)
    assert fleet.leader is not None
    leader, crowd = fleet.leader, Crowd(fleet, {"t": 95.0})
    await leader.move("t", Strategy.SINGLE, ("b0",))
    await crowd.go_on(SETTLED_S, every_s=2.5)
    await fleet.sleep(2.0)
    assert (await decisions(fleet, "t"))[-1].after is None
    fleet.network.store.down = True
    crowd.report()
    await fleet.sleep(2.0)
    fleet.network.store.down = False
    await fleet.sleep(2.0)
    (decision,) = await decisions(fleet, "t")
    assert leader.leading
    assert decision.brokers == ("b2",)
    assert decision.after is not None


@in_virtual_time
async def test_a_broken_promise_is_looked_at_without_waiting_for_the_next_round(start_fleet: StartFleet) -> None:
    fleet = await promised(start_fleet, LoopSettings(policy="epulsar", every_s=600.0))
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b0",))
    crowd = Crowd(fleet, {"t": 95.0})
    crowd.report()
    await fleet.sleep(2.0)
    assert crowd.broker_of("t") == "b2"


@in_virtual_time
async def test_clients_that_go_to_and_fro_move_their_topic_so_many_times_an_hour_and_no_more(
    start_fleet: StartFleet,
) -> None:
    loop = LoopSettings(policy="epulsar", every_s=5.0, rest_s=10.0, moves_per_hour=20)
    fleet = await promised(start_fleet, loop)
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b0",))
    begun = len(fleet.leader.moves["t"].record.routes)
    assert begun
    crowd, epoch = Crowd(fleet, {"t": 95.0}), fleet.leader.moves["t"].record.newest.epoch
    begun_s, moved_s = fleet.now, list[float]()
    for round_ in range(720):
        crowd.at_ms["t"] = 95.0 if round_ % 2 else 5.0
        crowd.report()
        await fleet.sleep(5.0)
        if fleet.leader.moves["t"].record.newest.epoch != epoch:
            epoch = fleet.leader.moves["t"].record.newest.epoch
            moved_s.append(fleet.now)
    assert fleet.now - begun_s >= 3600.0
    assert 10 <= len(moved_s) <= 20
    assert all(after - before >= loop.rest_s for before, after in pairwise(moved_s))


@in_virtual_time
async def test_between_brokers_that_are_nearly_equal_a_topic_stays(start_fleet: StartFleet) -> None:
    fleet = await promised(start_fleet)
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b0",))
    crowd = Crowd(fleet, {"t": 26.0}, {"b0": 0.0, "b1": 50.0, "b2": 500.0})
    for round_ in range(100):
        crowd.at_ms["t"] = 25.5 if round_ % 2 else 24.5
        crowd.report()
        await fleet.sleep(5.0)
    assert crowd.broker_of("t") == "b0"
    assert await decisions(fleet, "t") == ()


@in_virtual_time
async def test_while_its_clients_are_on_their_way_a_topic_does_not_go_on_by_what_is_only_predicted(
    start_fleet: StartFleet,
) -> None:
    fleet = await promised(start_fleet, LoopSettings(policy="epulsar", every_s=1.0, rest_s=2.0))
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b0",))
    crowd = Crowd(fleet, {"t": 85.0})
    await crowd.go_on(2.0, every_s=0.5)
    assert crowd.broker_of("t") == "b2"
    # One is still at b0; the other is at b2, and a little too far from it; b1 is predicted to be the best.
    crowd.worst_s, crowd.late = 0.082, ("b0",)
    crowd.at_ms["t"] = 55.0
    await crowd.go_on(6.0, every_s=0.5)
    assert crowd.broker_of("t") == "b2"
    crowd.late = ()
    await crowd.go_on(2.0, every_s=0.5)
    assert crowd.broker_of("t") == "b1"


@in_virtual_time
async def test_clients_that_never_arrive_do_not_keep_a_topic_where_its_promise_is_broken(
    start_fleet: StartFleet,
) -> None:
    fleet = await promised(start_fleet, LoopSettings(policy="epulsar", every_s=1.0, rest_s=2.0))
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b0",))
    crowd = Crowd(fleet, {"t": 85.0})
    await crowd.go_on(2.0, every_s=0.5)
    crowd.at_ms["t"], crowd.late = 45.0, ("b0",)
    await crowd.go_on(12.0, every_s=0.5)
    assert crowd.broker_of("t") == "b1"


@in_virtual_time
async def test_a_broken_promise_must_be_seen_as_often_as_is_asked_for(start_fleet: StartFleet) -> None:
    fleet = await promised(start_fleet, LoopSettings(policy="epulsar", every_s=5.0, hits=3))
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b0",))
    crowd = Crowd(fleet, {"t": 95.0})
    for at_ms in (95.0, 95.0, 5.0, 95.0, 95.0):
        crowd.at_ms["t"] = at_ms
        await crowd.go_on(5.0)
        assert crowd.broker_of("t") == "b0"
    await crowd.go_on(5.0)
    assert crowd.broker_of("t") == "b2"


@in_virtual_time
async def test_what_cannot_be_promised_is_refused_with_the_reason(start_fleet: StartFleet) -> None:
    fleet = await promised(start_fleet)
    async with operator_of(fleet) as operator:
        with pytest.raises(ConfigError, match="topic"):
            await operator.promise("_nearcast.x", PROMISE)
        assert [each.topic for each in (await operator.standings()).topics] == ["t"]
        shown = await operator.rebalance("plan", policy="all-pairs")
        assert "needs to know where brokers and clients are, and nobody said" in shown.refused
        Crowd(fleet, {"t": 95.0}).report()
        shown = await operator.rebalance("plan", policy="all-pairs")
        assert "It is for the lab; a fleet has 'epulsar'" in shown.refused


@in_virtual_time
async def test_a_topic_that_leaves_a_broker_to_be_drained_is_explained_and_a_refused_order_is_too(
    start_fleet: StartFleet,
) -> None:
    fleet = await promised(start_fleet, LoopSettings())
    assert fleet.leader is not None
    async with operator_of(fleet) as operator:
        await operator.move("t", Strategy.SINGLE, ("b0",))
        with pytest.raises(MoveRefused):
            await operator.move("t", Strategy.SINGLE, ("b9",))
        await fleet.sleep(30.0)
        await operator.broker("drain", "b0")
    await fleet.sleep(30.0)
    moved, refused, drained = await decisions(fleet, "t")
    assert (moved.brokers, moved.refused) == (("b0",), "")
    assert moved.done_s is not None
    assert (refused.brokers, refused.told_s) == (("b9",), None)
    assert "'b9' has no agent" in refused.refused
    assert (drained.policy, drained.reason) == ("drain", "broker 'b0' is being drained")
    assert drained.was_brokers == ("b0",)
    assert drained.brokers[0] in {"b1", "b2"}
    assert drained.told_s is not None


@in_virtual_time
async def test_what_the_leader_sees_gives_the_same_plan_elsewhere(start_fleet: StartFleet) -> None:
    fleet = await promised(start_fleet, LoopSettings(policy="epulsar"))
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.SINGLE, ("b0",))
    Crowd(fleet, {"t": 95.0, "u": 5.0}).report()
    async with operator_of(fleet) as operator:
        shown = await operator.rebalance("plan")
        seen = read_snapshot(await operator.snapshot())
    plan = epulsar(seen, Settings(), seen.at_s)
    assert [(each.topic, each.brokers, each.reason) for each in shown.steps] == [
        (each.topic, each.brokers, each.reason) for each in plan.steps
    ]
    assert shown.steps
