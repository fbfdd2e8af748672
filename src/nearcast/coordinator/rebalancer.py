"""The leader's loop: observe, plan, verify, and move what the plan says; by itself, or when an operator asks.

Plans are numbered. `apply` carries out exactly the plan that was shown, or refuses when what it was made of has
changed. A plan lives as long as its leader: the next one makes its own. What has begun is rolled forward by whoever
leads.
"""

import asyncio
import logging
import math
from collections.abc import Collection, Iterable
from dataclasses import astuple
from itertools import islice
from typing import Protocol

from nearcast.control.execution import Execution, StepProgress
from nearcast.control.loop import LoopSettings
from nearcast.control.restraint import Restraint, within_budget
from nearcast.control.verify import objections
from nearcast.coordinator.decisions import Decisions, Why
from nearcast.domain.errors import BrokerRefused, ConfigError, LeaseLost, MoveRefused, SnapshotError
from nearcast.domain.plan import HomeStep, Plan, Step
from nearcast.domain.snapshot import Snapshot
from nearcast.policies import epulsar
from nearcast.policies.registry import policy_named
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.rebalancing import MOST_STEPS, PlannedHome, PlannedStep, RebalanceOrder, Rebalancing, StepCounts

_log = logging.getLogger(__name__)
_KEPT = 16  # plans that were shown and can still be applied
_LOOK_S = 0.02
_SOONEST_S = 1.0  # between two looks, however many promises are broken


class Servers(Protocol):
    """Brokers that come and go; every one raises BrokerRefused or LeaseLost."""

    async def rent(self) -> str: ...

    async def drain(self, name: str) -> None: ...

    async def remove(self, name: str) -> None:
        """Refused while anything is left on it."""
        ...


class Homes(Protocol):
    """Subscribers, and where they are at home."""

    def carry_out(self, plan: Plan) -> None:
        """They are told to go, some at a time."""
        ...

    def left(self, steps: Iterable[HomeStep]) -> int:
        """How many of them have yet to arrive."""
        ...

    def stop(self) -> None:
        """No more are told."""
        ...


class Leader(Protocol):
    """What the loop needs of the coordinator that leads."""

    @property
    def servers(self) -> Servers: ...

    @property
    def homes(self) -> Homes: ...

    @property
    def leading(self) -> bool: ...

    @property
    def decisions(self) -> Decisions: ...

    def snapshot(self, planned_s: float | None, held: Collection[str] = (), relieved: Collection[str] = ()) -> Snapshot:
        """What is known now."""
        ...

    def apart(self, topics: Collection[str]) -> set[str]:
        """Those of them whose clients are at several brokers."""
        ...

    def movable(self, topic: str) -> bool:
        """Whether its move before is far enough. It soon is: agents that do not answer are given up."""
        ...

    def unheard(self) -> list[str]:
        """Brokers that have not reported lately, and may: a new leader has heard nobody."""
        ...


class Rebalancer:
    def __init__(self, leader: Leader, loop: LoopSettings, clock: Clock, crew: Crew, settle_s: float) -> None:
        """`settle_s`: how long clients take to follow a move; until then the plan counts as under way."""
        self._leader = leader
        self._loop = loop
        self._clock = clock
        self._crew = crew
        self._settle_s = settle_s
        self._plans: dict[int, Plan] = {}
        self._why: dict[int, str] = {}  # what an operator said of the plan that is being carried out
        self._last = 0
        self._running: tuple[int, Execution] | None = None
        self._planned_s: float | None = None
        self._restraint = Restraint(loop.rest_s, loop.moves_per_hour, loop.hits)
        self._look = asyncio.Event()  # it is time to plan by itself
        self._looked_s = -math.inf
        self._missed = False  # a broken promise was seen while a plan was being carried out

    def start(self) -> None:
        if self._loop.every_s:
            self._crew.start(self._by_itself(), "the loop that plans")

    def forget(self) -> None:
        """Another leads: its plans are its own."""
        if self._running is not None:
            self._running[1].stop()
        self._plans.clear()
        self._running = self._planned_s = None
        self._restraint.forget()

    def seen(self) -> Snapshot:
        """What a policy sees now."""
        now_s = self._clock.now()
        held = self._restraint.held(now_s, self._leader.apart(self._restraint.lately(now_s)))
        return self._leader.snapshot(self._planned_s, held, self._restraint.resting(now_s))

    def observed(self, promises: Iterable[tuple[str, bool]]) -> None:
        """What one report says of topics that have a promise, and whether it is broken: a broken one is looked at
        without waiting for the next round.
        """
        any_broken = False
        for topic, broken in promises:
            self._restraint.seen(topic, broken)
            any_broken |= broken
        if any_broken and self._loop.every_s and self._loop.policy == epulsar.NAME:
            wait_s = max(0.0, self._looked_s + _SOONEST_S - self._clock.now())
            self._clock.call_later(wait_s, self._look.set)

    def answer(self, order: RebalanceOrder) -> Rebalancing:
        try:
            match order.do:
                case "plan":
                    return self._told(order.number, self._propose(order.policy or self._loop.policy))
                case "apply":
                    why = f"applied by operator {order.asker}: {order.reason}" if order.reason else ""
                    return self._told(order.number, self._apply(order.plan, why))
                case "stop":
                    self._stop()
            number = self._running[0] if self._running is not None else 0
            return self._told(order.number, number)
        except (ConfigError, MoveRefused, SnapshotError) as error:
            return Rebalancing(order.number, refused=str(error), automatic=bool(self._loop.every_s))

    # Plans

    def _propose(self, policy: str) -> int:
        now = self.seen()
        plan = within_budget(policy_named(policy)(now, self._loop.settings, now.at_s), self._loop.most_moves)
        self._last += 1
        self._plans[self._last] = plan
        for number in list(islice(self._plans, max(0, len(self._plans) - _KEPT))):
            del self._plans[number]
        return self._last

    def proposed(self, number: int) -> Plan:
        """A plan that was shown. Raises MoveRefused."""
        plan = self._plans.get(number)
        if plan is None:
            known = ", ".join(map(str, self._plans)) or "none"
            raise MoveRefused(f"plan {number} is not known to this leader (known: {known}); make one anew")
        return plan

    def _apply(self, number: int, why: str = "") -> int:
        self._begin(number, self.proposed(number), self._loop.at_once, why)
        return number

    def carry_out(self, plan: Plan, *, at_once: int) -> Execution:
        """A plan that the caller has made; it is held against what is so now as any other. Raises MoveRefused."""
        self._last += 1
        return self._begin(self._last, plan, at_once)

    def must_be_applicable(self, number: int, plan: Plan) -> Snapshot:
        """What it was held against. Raises MoveRefused."""
        if self._running is not None and not self._over(self._running[1]):
            raise MoveRefused(f"plan {self._running[0]} is being carried out; stop it first, or wait")
        now = self.seen()
        if against := objections(plan, now, most=self._loop.most_moves):
            raise MoveRefused(f"plan {number} cannot be applied now: {'; '.join(against[:5])}; make one anew")
        return now

    def must_be_running(self) -> Execution:
        """The plan that is being carried out. Raises MoveRefused when there is none."""
        if self._running is None or self._over(self._running[1]):
            raise MoveRefused("no plan is being carried out")
        return self._running[1]

    def _begin(self, number: int, plan: Plan, at_once: int, why: str = "") -> Execution:
        """`why`: what an operator said."""
        now = self.must_be_applicable(number, plan)
        execution = Execution(plan, at_once, self._clock.now())
        self._running = (number, execution)
        if plan.steps:
            self._planned_s = now.at_s
        self._restraint.relieved(plan.relieved, self._clock.now())
        if plan.rent:
            self._crew.start(self._rent(plan.rent), "servers are rented")
        self._leader.homes.carry_out(plan)
        self._why = {number: why}
        self._go_on(number, execution)
        return execution

    def _stop(self) -> None:
        self.must_be_running().stop()
        self._leader.homes.stop()

    def _over(self, execution: Execution) -> bool:
        return execution.over and not self._leader.homes.left(execution.plan.homes)

    def _go_on(self, number: int, execution: Execution) -> None:
        for step in execution.due(self._clock.now()):
            self._crew.start(self._carry_out(number, execution, step), f"step of {step.topic}")
        if execution.over:
            self._restraint.relieved(execution.plan.relieved, self._clock.now())
        if execution.over and self._missed:
            self._look.set()
        if execution.over and not execution.stopped:
            for name in execution.plan.release:
                self._crew.start(self._release(name), f"{name} is released")

    async def _carry_out(self, number: int, execution: Execution, step: Step) -> None:
        refused = ""
        reason = f"{step.reason}; {said}" if (said := self._why.get(number)) else step.reason
        why = Why(execution.plan.policy, reason, number, step.forecast)
        try:
            while not self._leader.movable(step.topic):  # its move before is just being ended
                await self._clock.sleep(_LOOK_S)
            self._restraint.moved(step.topic, self._clock.now())
            await self._leader.decisions.move(step.topic, step.strategy, step.brokers, why)
            execution.moved(step.topic, self._clock.now())
            self._go_on(number, execution)
            await self._clock.sleep(self._settle_s)
        except (MoveRefused, LeaseLost) as error:
            refused = str(error)
        execution.ended(step.topic, refused)
        self._go_on(number, execution)

    async def _rent(self, count: int) -> None:
        try:
            for _ in range(count):
                await self._leader.servers.rent()
        except (BrokerRefused, LeaseLost) as error:
            _log.warning("no server is rented: %s", error)

    async def _release(self, name: str) -> None:
        """Drained first, which takes as long as it takes; when another leads by then, it sees to it."""
        servers = self._leader.servers
        try:
            await servers.drain(name)
            while self._leader.leading:
                await self._clock.sleep(self._settle_s)
                try:
                    await servers.remove(name)
                except BrokerRefused:
                    continue  # something is still there
                return
        except (BrokerRefused, LeaseLost) as error:
            _log.warning("%s is not released: %s", name, error)

    # By itself

    async def _by_itself(self) -> None:
        while True:
            timer = self._clock.call_later(self._loop.every_s, self._look.set)
            await self._look.wait()
            timer.cancel()
            self._look.clear()
            self._looked_s = self._clock.now()
            self._missed = self._running is not None and not self._over(self._running[1])
            if self._missed or not self._leader.leading or self._leader.unheard():
                continue
            try:
                number = self._propose(self._loop.policy)
                if self._plans[number].changes:
                    self._apply(number)
            except (MoveRefused, SnapshotError) as error:
                _log.warning("not carried out: %s", error)

    # Telling

    def _told(self, asked: int, number: int) -> Rebalancing:
        automatic = bool(self._loop.every_s)
        if not number:
            return Rebalancing(asked, automatic=automatic)
        running = self._running[1] if self._running is not None and self._running[0] == number else None
        plan = self._plans[number] if running is None else running.plan
        steps = running or Execution(plan, self._loop.at_once, self._clock.now())
        left = self._leader.homes.left(plan.homes) if running else len(plan.homes)
        return Rebalancing(
            asked,
            number,
            plan.policy,
            _state(running, left),
            StepCounts(**steps.counts()),
            tuple(map(_planned, islice(steps.progress(), MOST_STEPS))),
            plan.rent,
            plan.release,
            plan.reasons,
            plan.load_ratios,
            () if running else tuple(objections(plan, self.seen(), most=self._loop.most_moves)),
            automatic,
            homes=tuple(PlannedHome(*astuple(step)) for step in plan.homes[:MOST_STEPS]),
            homes_count=len(plan.homes),
            homes_left=left,
        )


def _state(running: Execution | None, homes_left: int) -> str:
    if running is None:
        return "proposed"
    if running.over and not homes_left:
        return "stopped" if running.stopped else "done"
    return "stopping" if running.stopped else "running"


def _planned(each: StepProgress) -> PlannedStep:
    step = each.step
    return PlannedStep(
        step.topic,
        step.strategy,
        step.brokers,
        step.was_strategy,
        step.was_brokers,
        step.reason,
        each.state.value,
        each.why,
        each.waited_s,
        each.took_s,
    )
