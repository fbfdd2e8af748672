"""The API's answers: what is read comes from the last look and the journal, what is ordered goes to whoever leads."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import numpy as np

from nearcast.coordinator.journal import Journal
from nearcast.coordinator.orders import described, over, task_id
from nearcast.domain.errors import ConfigError, LeaseLost, LinkError, ProcessorError, TopicNameError
from nearcast.domain.log import LogSpec
from nearcast.domain.places import Floats
from nearcast.domain.processor import Language, Processor
from nearcast.domain.route import Delegation, Route
from nearcast.domain.slo import Slo
from nearcast.domain.task import Task
from nearcast.domain.topic import validate_topic
from nearcast.processing.sql import Query
from nearcast.transport.crew import Crew
from nearcast.web import asked, models
from nearcast.web.channels import ChannelReader
from nearcast.web.chronicle import Chronicle
from nearcast.web.lookout import Lookout
from nearcast.web.problems import Refusal, invalid, not_found
from nearcast.web.view import View, risk_first
from nearcast.wire.brokers import BrokerDoing, BrokerOrder
from nearcast.wire.control import Change, MoveOrder, Outcome
from nearcast.wire.logs import KeepOrder
from nearcast.wire.processors import ProcessOrder
from nearcast.wire.promises import PromiseOrder
from nearcast.wire.rebalancing import RebalanceOrder, Rebalancing

READY_S = 10.0
"""What was seen longer ago is not what is so now."""

_SEEN_S = 10.0

Done = models.Foresight | models.Accepted
_Figure = Callable[[models.Topic], float]
_FIGURES: dict[str, _Figure] = {
    "measured": lambda each: each.measured_ms or 0.0,
    "worst": lambda each: each.worst_ms or 0.0,
    "load": lambda each: each.bytes_out_per_s,
    "messages": lambda each: each.publications_hz,
    "publishers": lambda each: each.publishers,
    "subscribers": lambda each: each.subscribers,
}


class Api:
    """Orders go on in `crew` after they were answered."""

    def __init__(
        self,
        name: str,
        lookout: Lookout,
        chronicle: Chronicle,
        *,
        journal: Journal,
        channels: ChannelReader,
        crew: Crew,
    ) -> None:
        self.name = name
        self.lookout = lookout
        self.chronicle = chronicle
        self._journal = journal
        self._channels = channels
        self._crew = crew
        self._ordered: dict[str, Task] = {}  # here, as long as the journal does not have it

    @property
    def view(self) -> View:
        if self.lookout.view is None:
            raise Refusal(503, f"nothing has been seen yet: {self.lookout.trouble}")
        return self.lookout.view

    # Read

    async def healthy(self, _asked: asked.Nothing) -> models.Health:
        return models.Health(ok=True)

    async def ready(self, _asked: asked.Nothing) -> models.Health:
        lookout = self.lookout
        if lookout.view is None or lookout.age_s() > READY_S:
            raise Refusal(503, f"no leader answers: {lookout.trouble or 'nothing was seen lately'}")
        return models.Health(ok=True, detail=f"{lookout.view.status.leader} leads")

    async def status(self, _asked: asked.Nothing) -> models.Status:
        return self.view.told(self.name, self.lookout.age_s(), self.lookout.trouble)

    async def brokers(self, _asked: asked.Nothing) -> models.Brokers:
        return models.Brokers(self.view.brokers)

    async def broker(self, _asked: asked.Nothing, broker: str) -> models.Broker:
        for each in self.view.brokers:
            if each.name == broker:
                return each
        raise not_found(f"there is no broker {broker!r}; brokers are {', '.join(b.name for b in self.view.brokers)}")

    async def topics(self, query: asked.TopicsQuery) -> models.Topics:
        known, wanted = self.view.topics, query.search.lower()
        found = [
            each
            for each in known
            if wanted in each.topic.lower()
            and query.broker in {"", *each.brokers}
            and query.promise in {"", each.promise}
        ]
        if query.sort in _FIGURES:
            figure = _FIGURES[query.sort]
            found.sort(key=lambda each: (-figure(each), each.topic))
        elif query.sort == "risk":
            found.sort(key=risk_first)
        if query.order == ("descending" if query.sort == "topic" else "ascending"):
            found.reverse()
        page = found[query.offset : query.offset + query.limit]
        return models.Topics(len(found), len(known), query.offset, tuple(page))

    async def topic(self, _asked: asked.Nothing, topic: str) -> models.TopicDetail:
        _must_be_topic(topic)
        at_s, measured, worst = self.lookout.history.of(topic)
        history = models.LatencyHistory(tuple(np.round(at_s, 2).tolist()), _values(measured), _values(worst))
        found = self.view.topic(topic)
        at = found.brokers if found else (self.view.snapshot.ring.owner(topic),)
        return models.TopicDetail(topic, at, found, history, await self._journal.read(topic))

    async def happenings(self, query: asked.HappeningsQuery) -> models.Happenings:
        found = self.chronicle.recent(query.limit, topic=query.topic, before_s=query.before_s)
        return models.Happenings(tuple(found))

    async def tasks(self, _asked: asked.Nothing) -> models.Tasks:
        found = {**self._ordered, **self.chronicle.tasks}
        return models.Tasks(tuple(sorted(found.values(), key=lambda each: -each.at_s)))

    async def task(self, query: asked.TaskQuery, task: str) -> Task:
        """When one that was ordered here is over, what is read here afterwards was seen after it."""
        found = self._task(task)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(query.wait_s):
                while found.state == "running" and query.wait_s:
                    await self.lookout.wait()
                    found = self._task(task)
        return found

    def _task(self, task: str) -> Task:
        here, written = self._ordered.get(task), self.chronicle.tasks.get(task)
        found = here if here is not None and here.state == "running" else written or here
        if found is None:
            raise not_found(f"there is no task {task!r} among those that are kept")
        return found

    async def plan(self, query: asked.PlanQuery) -> models.Plan:
        routes = sorted(self.view.snapshot.routes().items())
        page = routes[query.offset : query.offset + query.limit]
        ring = self.view.snapshot.ring
        return models.Plan(
            ring.version,
            ring.brokers,
            len(routes),
            tuple(models.RouteTold(topic, each.epoch, each.strategy, each.brokers) for topic, each in page),
        )

    async def rebalance(self, _asked: asked.Nothing) -> models.Rebalance:
        return _rebalance(await self.lookout.operator.rebalance("status"))

    async def map(self, query: asked.MapQuery) -> models.Map:
        return self.view.map(query.limit)

    async def clients(self, _asked: asked.Nothing) -> models.Clients:
        at = tuple(models.ClientsAt(each.name, each.publishers, each.subscribers) for each in self.view.brokers)
        return models.Clients(sum(each.publishers for each in at), sum(each.subscribers for each in at), at)

    async def homes(self, _asked: asked.Nothing) -> models.Homes:
        told = self.view.homes
        if told is None:
            return models.Homes(0, 0, 0.0, 0, 0, (), "", ())
        figures = (told.subscribers, told.keys, round(told.cov, 4), told.moving, told.waiting)
        return models.Homes(*figures, told.brokers, told.policy, told.reasons)

    async def processors(self, _asked: asked.Nothing) -> models.Processors:
        return models.Processors(self.view.processors)

    async def channels(self, _asked: asked.Nothing) -> models.Channels:
        return models.Channels(await self._channels.read())

    # Ordered

    async def move(self, query: asked.DryRun, body: asked.Move, topic: str) -> Done:
        _must_be_topic(topic)
        number, me = self._next()
        brokers = tuple(sorted({*body.brokers}))
        delegation = _delegation(body, brokers)
        order = MoveOrder(topic, me, number, body.strategy, brokers, body.eager, body.reason, delegation)
        return await self._order(order, dry_run=query.dry_run)

    async def promise(self, query: asked.DryRun, body: asked.Promise, topic: str) -> Done:
        _must_be_topic(topic)
        try:
            slo = str(Slo.parse(body.slo)) if body.slo else ""
        except ConfigError as error:
            raise invalid("slo", str(error), "a promise like p95:40ms, or nothing") from error
        number, me = self._next()
        return await self._order(PromiseOrder(me, number, topic, slo, body.reason), dry_run=query.dry_run)

    async def keep(self, query: asked.DryRun, body: asked.Keep, topic: str) -> Done:
        _must_be_topic(topic)
        try:
            spec = LogSpec(body.replicas, body.retain_s, body.retain_bytes, body.retain_messages)
        except ConfigError as error:
            raise invalid("replicas", str(error), "1, 3 or 5") from error
        number, me = self._next()
        return await self._order(KeepOrder(me, number, topic, spec, body.reason), dry_run=query.dry_run)

    async def process(self, query: asked.DryRun, body: asked.Process, topic: str) -> Done:
        _must_be_topic(topic)
        number, me = self._next()
        order = ProcessOrder(me, number, topic, _processor(body), body.reason)
        return await self._order(order, dry_run=query.dry_run)

    async def make_plan(self, _query: asked.DryRun, body: asked.MakePlan) -> models.Rebalance:
        """Whether it is a dry run or not: a plan by itself moves nothing."""
        found = await self.lookout.operator.rebalance("plan", policy=body.policy)
        if found.refused:
            raise Refusal(409, found.refused)
        return _rebalance(found)

    async def apply_plan(self, query: asked.DryRun, body: asked.ApplyPlan) -> Done:
        number, me = self._next()
        order = RebalanceOrder(me, number, "apply", "", body.plan, body.reason)
        return await self._order(order, dry_run=query.dry_run)

    async def stop_plan(self, query: asked.DryRun, body: asked.Because) -> Done:
        number, me = self._next()
        return await self._order(RebalanceOrder(me, number, "stop", reason=body.reason), dry_run=query.dry_run)

    async def add_broker(self, query: asked.DryRun, body: asked.AddBroker) -> Done:
        number, me = self._next()
        order = BrokerOrder(me, number, "add", body.name, body.url, body.site, body.out_bytes_per_s, body.reason)
        return await self._order(order, dry_run=query.dry_run)

    async def drain_broker(self, query: asked.DryRun, body: asked.Drain, broker: str) -> Done:
        return await self._broker("cancel" if body.cancel else "drain", broker, body.reason, query)

    async def remove_broker(self, query: asked.DryRun, body: asked.Because, broker: str) -> Done:
        return await self._broker("remove", broker, body.reason, query)

    async def _broker(self, do: BrokerDoing, broker: str, reason: str, query: asked.DryRun) -> Done:
        number, me = self._next()
        return await self._order(BrokerOrder(me, number, do, broker, reason=reason), dry_run=query.dry_run)

    def _next(self) -> tuple[int, str]:
        operator = self.lookout.operator
        return operator.numbered(), operator.name

    async def _order(self, order: Change, *, dry_run: bool) -> Done:
        """What would be refused is refused at once, dry run or not."""
        if not dry_run and not order.reason.strip():
            raise invalid("reason", "reason is empty: say why", "a few words that others find in the decisions")
        foreseen = await self.lookout.operator.foresee(order)
        if foreseen.refused:
            raise Refusal(409, foreseen.refused)
        if dry_run:
            return models.Foresight(foreseen.steps, foreseen.steps_count, foreseen.notes)
        number = task_id(order.asker, order.number)
        self._ordered[number] = Task(number, round(time.time(), 3), order.asker, *described(order), order.reason)
        self._crew.start(self._carry_out(order, number), f"order {number}")
        return models.Accepted(number)

    async def _carry_out(self, order: Change, number: str) -> None:
        """The leader writes down what became of it; here it is told until that is read, and not before it was seen."""
        try:
            outcome = await self.lookout.operator.carry_out(order)
            refused, epoch = outcome.refused, outcome.epoch if isinstance(outcome, Outcome) else 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SEEN_S):
                    await self.lookout.anew()
        except (LeaseLost, LinkError) as error:
            refused, epoch = str(error), 0
        self._ordered[number] = over(self._ordered[number], time.time(), refused, epoch=epoch)
        self.lookout.changed()
        while (written := self.chronicle.tasks.get(number)) is None or written.state == "running":
            await self.lookout.wait()
        del self._ordered[number]


def _must_be_topic(topic: str) -> None:
    try:
        validate_topic(topic)
    except TopicNameError as error:
        raise invalid("topic", str(error), "the name of a topic") from error


def _delegation(body: asked.Move, brokers: tuple[str, ...]) -> Delegation | None:
    if body.delegation is None:
        return None
    try:
        found = Delegation(body.delegation.cloud, tuple(sorted({*body.delegation.homes})))
        return Route(1, body.strategy, brokers, delegation=found).delegation
    except ConfigError as error:
        raise invalid("delegation", str(error), "brokers of a homed topic") from error


def _processor(body: asked.Process) -> Processor | None:
    if not body.code:
        return None
    try:
        if body.language is Language.SQL:
            Query(body.code)  # what cannot be prepared is refused here, with what SQLite says of it
        return Processor(body.language, body.code, body.spool, body.limit_ms, body.queue, body.when_full)
    except (ConfigError, ProcessorError) as error:
        raise invalid("code", str(error), "a processor: see `nearcast topic set --help`") from error


def _values(found: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(each) else round(each, 3) for each in found.tolist())


def _rebalance(found: Rebalancing) -> models.Rebalance:
    return models.Rebalance(
        found.plan,
        found.policy,
        found.state,
        found.counts,
        found.steps,
        found.rent,
        found.release,
        found.reasons,
        found.objections,
        found.load_ratios,
        found.automatic,
        found.homes,
        found.homes_count,
        found.homes_left,
    )
