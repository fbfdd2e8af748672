"""Every endpoint of the API: what it takes, what it answers, who answers it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from nearcast.domain.task import Task
from nearcast.web import asked, models
from nearcast.web.api import Api

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`answer` is called with the API, the query, the body if there is one, and what the path names.

    `gives`: what is answered with 200; `accepted`: with 202, where it is an order.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    answer: Callable[..., Any]
    gives: type
    query: type[msgspec.Struct] = asked.Nothing
    body: type[msgspec.Struct] | None = None
    accepted: type | None = None
    problems: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What the path names."""
        return tuple(part[1:-1].partition(":")[0] for part in self.path.split("/") if part.startswith("{"))


def _read(path: str, summary: str, answer: Callable[..., Any], gives: type, **more: Any) -> Endpoint:
    return Endpoint("GET", path, summary, answer, gives, **more)


def _order(path: str, summary: str, answer: Callable[..., Any], body: type[msgspec.Struct]) -> Endpoint:
    return Endpoint("POST", path, summary, answer, models.Foresight, asked.DryRun, body, models.Accepted, (409,))


ENDPOINTS: tuple[Endpoint, ...] = (
    _read("/healthz", "Whether this process lives", Api.healthy, models.Health),
    _read("/readyz", "Whether it can say what is so: a leader answers", Api.ready, models.Health),
    _read(f"{PREFIX}/status", "The whole in figures", Api.status, models.Status),
    _read(f"{PREFIX}/brokers", "Brokers, their agents and loads", Api.brokers, models.Brokers),
    _read(f"{PREFIX}/brokers/{{broker}}", "One broker", Api.broker, models.Broker, problems=(404,)),
    _read(f"{PREFIX}/topics", "Topics: searched, sorted, in pages", Api.topics, models.Topics, query=asked.TopicsQuery),
    _read(
        f"{PREFIX}/topics/{{topic:path}}",
        "One topic with its latencies over time and its decisions",
        Api.topic,
        models.TopicDetail,
    ),
    _read(
        f"{PREFIX}/decisions",
        "What was decided and ordered, the newest first",
        Api.happenings,
        models.Happenings,
        query=asked.HappeningsQuery,
    ),
    _read(f"{PREFIX}/tasks", "What operators ordered lately", Api.tasks, models.Tasks),
    _read(
        f"{PREFIX}/tasks/{{task}}", "What became of one order", Api.task, Task, query=asked.TaskQuery, problems=(404,)
    ),
    _read(f"{PREFIX}/plan", "The plan in force: routes and the ring", Api.plan, models.Plan, query=asked.PlanQuery),
    _read(f"{PREFIX}/rebalance", "The plan that is being carried out, or was last", Api.rebalance, models.Rebalance),
    _read(f"{PREFIX}/map", "Brokers and clients by network coordinates", Api.map, models.Map, query=asked.MapQuery),
    _read(f"{PREFIX}/clients", "How many clients there are", Api.clients, models.Clients),
    _read(f"{PREFIX}/homes", "How subscribers of channels are spread", Api.homes, models.Homes),
    _read(f"{PREFIX}/channels", "Channels of the pipeline", Api.channels, models.Channels),
    _read(f"{PREFIX}/processors", "Topics that are processed at brokers", Api.processors, models.Processors),
    _order(f"{PREFIX}/topics/{{topic:path}}/move", "Move a topic", Api.move, asked.Move),
    _order(f"{PREFIX}/topics/{{topic:path}}/promise", "Promise a latency, or nothing", Api.promise, asked.Promise),
    _order(f"{PREFIX}/topics/{{topic:path}}/log", "Keep a topic's messages, or change how long", Api.keep, asked.Keep),
    _order(
        f"{PREFIX}/topics/{{topic:path}}/processor",
        "Process a topic's messages, or no more",
        Api.process,
        asked.Process,
    ),
    Endpoint(
        "POST",
        f"{PREFIX}/rebalance/plan",
        "Make a plan, which gets a number; it moves nothing",
        Api.make_plan,
        models.Rebalance,
        asked.DryRun,
        asked.MakePlan,
        problems=(409,),
    ),
    _order(f"{PREFIX}/rebalance/apply", "Carry out a plan that was shown", Api.apply_plan, asked.ApplyPlan),
    _order(f"{PREFIX}/rebalance/stop", "Begin nothing more of a plan", Api.stop_plan, asked.Because),
    _order(f"{PREFIX}/brokers", "Add a broker, or rent one", Api.add_broker, asked.AddBroker),
    _order(f"{PREFIX}/brokers/{{broker}}/drain", "Move everything away from a broker", Api.drain_broker, asked.Drain),
    _order(f"{PREFIX}/brokers/{{broker}}/remove", "Take out a broker that is empty", Api.remove_broker, asked.Because),
)
