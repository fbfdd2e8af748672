"""BAD-8: identical subscriptions are shared at the broker and at the data cluster. Section 3.1 of BAD.

Live: a server, its agent, a pipeline on Spark (`local[2]`), each a process of its own, and followers in further ones.
The same questions are asked by one subscriber each, by 10 and by 100, and the same executions are measured: Spark's
seconds, what the broker is given and what it sends by its own counters, processor time of broker, agent and pipeline.
Then again with ever fewer of them, because Spark becomes faster by itself and the machine has other things to do at
times; what is compared is both together.

At last the crowd: a million subscribers of 10,000 questions at one agent.

Which subscribers are which:
- With one subscriber per question, each is a client with a connection of its own. In the crowd, 2,000 are.
- All others have a name, an inbox, a lease and a subscription at the broker of their own, and the client's own machine
  behind it; they send and hear the same messages, over connections that they share. Nobody shares a connection with
  another of the same question, so that the broker sends every one of them a copy of its own.
- Every one of them, with or without its own connection, compares each notification with what is due to it next.

What the broker is given for results is what it is given while an execution is delivered, without what it is given in
the same time when nothing happens. An execution begins when nobody has to renew for a while; the traffic of renewals is
measured apart, over one whole round.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, median
from typing import TYPE_CHECKING

from nearcast.lab.claim import Claim, Expectation
from nearcast.lab.experiment import Experiment, Metric, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.sharing import QUICK, Crowd, Registration, Round, Run, Scale, Shared, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "bad.sharing"
_STEPS = 8

SPARK = Expectation("BAD-8", "Spark's seconds per execution with 10x and 100x subscribers, over 1x: the worse", "< 1.2")
SPARK_WORKED = Expectation(
    "BAD-8", "processor seconds of the pipeline with Spark per execution, 10x and 100x over 1x: the worse", "< 1.2"
)
INCOMING = Expectation(
    "BAD-8", "bytes given to the broker for an execution with 10x and 100x subscribers, over 1x: the worse", "< 1.05"
)
REGISTERING = Expectation(
    "BAD-8", "seconds to register subscribers, from 10x to 100x: exponent of their number", "<= 1.1"
)
REGISTERING_WORKED = Expectation(
    "BAD-8",
    "the agent's processor seconds to register subscribers, from 10x to 100x: exponent of their number",
    "<= 1.1",
)
SENT = Expectation(
    "BAD-8", "bytes sent by the broker per execution, from 1x to 100x: exponent of subscribers", "<= 1.1"
)
WORKED = Expectation(
    "BAD-8", "processor time of broker and agent per execution, from 1x to 100x: exponent of subscribers", "<= 1.1"
)
COUNTED = Expectation("BAD-8", "share of the crowd that the agent counts as registered", "== 1")
MATCHED = Expectation("BAD-8", "share of the crowd whose question the execution has rows for", "== 1")
DELIVERED = Expectation("BAD-8", "share of the crowd's notifications that were delivered", "== 1")
WRONG = Expectation("BAD-8", "notifications that were missed before, came twice, or answered another question", "== 0")
CROWD = Expectation("BAD-8", "subscribers of 10,000 questions at one agent", ">= 1000000")
CONNECTED = Expectation("BAD-8", "of those, subscribers with a connection of their own", ">= 2000")


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    return measured(QUICK if settings.quick else Scale(), settings, progress)


def measured(scale: Scale, settings: RunSettings, progress: Progress) -> Outcome:
    done = 0

    def heard(doing: str) -> None:
        nonlocal done
        progress(min(done, _STEPS), _STEPS, doing)
        done += 1

    found = share(scale, settings.brokers or "nats", settings.seed, heard)
    return Outcome(
        claims=(*judged(found), *(() if settings.quick else _sizes(found.crowd))),
        metrics={
            "brokers": settings.brokers or "nats",
            "questions": scale.areas,
            "lease_s": scale.lease_s,
            "rounds": {_name(each): _round(each) for each in found.rounds},
            "crowd": _crowd(found.crowd),
        },
        tables={
            "rounds": Table(
                ("subscribers", "connections", "again", *_RUN),
                tuple(
                    (each.followers, each.connections, each.again, *_row(run))
                    for each in found.rounds
                    for run in each.runs
                ),
            ),
            "crowd": Table(_RUN, tuple(_row(run) for run in found.crowd.runs)),
            "registration": Table(
                ("subscribers", "seconds", "microseconds_each", "agent_cpu_s"),
                tuple(
                    (each.followers, round(each.took_s, 3), round(1e6 * each.took_s / each.followers, 1), each.agent_s)
                    for each in (
                        *(each for one in found.rounds for each in one.registrations),
                        found.crowd.registration,
                    )
                ),
            ),
        },
        figures={"sharing": partial(_draw, found)},
    )


def judged(found: Shared) -> tuple[Claim, ...]:
    """By its rules, whatever the size."""
    first, *more = [each for each in found.rounds if not each.again]
    runs = {
        each.factor: [run for one in found.rounds if one.factor == each.factor for run in one.runs]
        for each in (first, *more)
    }
    base, crowd, last = runs[first.factor], found.crowd, more[-1]

    def worst(what: Callable[[Run], float]) -> float:
        return max(_middle(runs[each.factor], what) for each in more) / _middle(base, what)

    def sent(runs: Sequence[Run]) -> float:
        return _middle(runs, lambda run: run.out_bytes)

    def worked(runs: Sequence[Run]) -> float:
        """Few milliseconds: a mean has less noise. Nothing, where more was subtracted than there was."""
        each = [run.broker_cpu_s + run.agent_cpu_s for run in runs]
        return fmean(each) if min(each) > 0.0 else 0.0

    few, many = more[0].registrations, last.registrations
    times = many[0].followers / few[0].followers

    def took_s(registrations: Sequence[Registration]) -> float:
        return median(each.took_s for each in registrations)

    def agent_s(registrations: Sequence[Registration]) -> float:
        return median(each.agent_s for each in registrations)

    return (
        SPARK.judge(worst(lambda run: run.execution.took_s)),
        SPARK_WORKED.judge(worst(lambda run: run.pipeline_cpu_s)),
        INCOMING.judge(worst(lambda run: run.results_in_bytes)),
        REGISTERING.judge(_exponent(took_s(few), took_s(many), times)),
        REGISTERING_WORKED.judge(_exponent(agent_s(few), agent_s(many), times)),
        SENT.judge(_exponent(sent(base), sent(last.runs), last.followers / first.followers)),
        WORKED.judge(_exponent(worked(base), worked(last.runs), last.followers / first.followers)),
        COUNTED.judge(crowd.counted / crowd.followers),
        MATCHED.judge(crowd.matched / crowd.followers),
        DELIVERED.judge(crowd.delivered / crowd.owed),
        WRONG.judge(found.wrong),
    )


def _sizes(crowd: Crowd) -> tuple[Claim, ...]:
    return CROWD.judge(crowd.counted), CONNECTED.judge(crowd.clients)


def _exponent(small: float, large: float, times: float) -> float | None:
    """Of growth by a power: 0 for none, 1 for linear. None where nothing was measured."""
    return math.log(large / small) / math.log(times) if small > 0 and large > 0 else None


def _middle(runs: Sequence[Run], what: Callable[[Run], float]) -> float:
    return median(what(run) for run in runs)


_RUN = (
    "execution_s",
    "rows",
    "keys",
    "in_bytes",
    "out_bytes",
    "fanout_s",
    "broker_cpu_s",
    "agent_cpu_s",
    "pipeline_cpu_s",
)


def _row(run: Run) -> tuple[float, ...]:
    execution = run.execution
    times_s = (run.fanout_s, run.broker_cpu_s, run.agent_cpu_s, run.pipeline_cpu_s)
    sizes = (round(run.results_in_bytes), round(run.out_bytes))
    return (execution.took_s, execution.rows, execution.keys, *sizes, *(round(each, 3) for each in times_s))


def _name(each: Round) -> str:
    return f"{each.factor}x{' again' if each.again else ''}"


def _round(each: Round) -> dict[str, Metric]:
    took_s = sorted(run.execution.took_s for run in each.runs)
    out: dict[str, Metric] = {
        "subscribers": each.followers,
        "connections": each.connections,
        "execution_s": {"median": median(took_s), "least": took_s[0], "most": took_s[-1]},
        "in_bytes_per_execution": round(_middle(each.runs, lambda run: run.results_in_bytes)),
        "out_bytes_per_execution": round(_middle(each.runs, lambda run: run.out_bytes)),
        "fanout_s": round(_middle(each.runs, lambda run: run.fanout_s), 3),
        "broker_cpu_s": round(_middle(each.runs, lambda run: run.broker_cpu_s), 3),
        "agent_cpu_s": round(_middle(each.runs, lambda run: run.agent_cpu_s), 3),
        "pipeline_cpu_s": round(_middle(each.runs, lambda run: run.pipeline_cpu_s), 3),
    }
    if each.idle is not None:
        out["renewals"] = {
            "seconds": round(each.idle.seconds, 1),
            "messages_of_those_who_share_connections": each.idle.said,
            "in_bytes_per_s": round(each.idle.in_bytes / each.idle.seconds),
            "out_bytes_per_s": round(each.idle.out_bytes / each.idle.seconds),
            "agent_cpu": round(each.idle.agent_cpu_s / each.idle.seconds, 4),
        }
    return out


def _crowd(crowd: Crowd) -> dict[str, Metric]:
    grown = crowd.after.agent_bytes - crowd.before.agent_bytes
    return {
        "subscribers": crowd.followers,
        "with_a_connection_of_their_own": crowd.clients,
        "connections": crowd.connections,
        "questions": crowd.keys,
        "registered": crowd.counted,
        "matched": crowd.matched,
        "delivered": crowd.delivered,
        "owed": crowd.owed,
        "connections_broken": crowd.breaks,
        "registered_in_s": round(crowd.clients_registration.took_s + crowd.registration.took_s, 1),
        "agent_cpu_s_to_register": round(crowd.clients_registration.agent_s + crowd.registration.agent_s, 1),
        "execution_s": [run.execution.took_s for run in crowd.runs],
        "fanout_s": [round(run.fanout_s, 2) for run in crowd.runs],
        "memory_mb": {
            name.removesuffix("_bytes"): {"before": round(before / 1e6), "after": round(after / 1e6)}
            for name, before, after in zip(crowd.before._fields, crowd.before, crowd.after, strict=True)
        },
        "agent_bytes_per_subscriber": round(grown / crowd.followers),
    }


def _draw(found: Shared, figure: "Figure") -> None:
    spark, traffic, registering = figure.subplots(1, 3)
    _draw_spark(found, spark)
    rounds = [each for each in found.rounds if not each.again]
    followers = [each.followers for each in rounds]
    given = [_middle(each.runs, lambda run: run.results_in_bytes) for each in rounds]
    sent = [_middle(each.runs, lambda run: run.out_bytes) for each in rounds]
    traffic.loglog(followers, given, marker="o", label="given to the broker")
    traffic.loglog(followers, sent, marker="s", label="sent by it")
    traffic.set(xlabel="subscribers", ylabel="bytes per execution", title="broker")
    traffic.legend(fontsize="small")
    registered = [*(each for one in rounds for each in one.registrations), found.crowd.registration]
    registering.loglog([each.followers for each in registered], [each.took_s for each in registered], "o")
    registering.set(xlabel="subscribers registered", ylabel="seconds", title="registration")


def _draw_spark(found: Shared, axes: "Axes") -> None:
    for place, each in enumerate(found.rounds):
        axes.plot([place] * len(each.runs), [run.execution.took_s for run in each.runs], "o", alpha=0.6)
    axes.set_xticks(range(len(found.rounds)), [_name(each) for each in found.rounds])
    axes.set_ylim(bottom=0)
    axes.set(xlabel="subscribers", ylabel="seconds per execution", title="Spark")


EXPERIMENT = Experiment(
    name=NAME,
    paper="BAD, section 3.1",
    summary="the same questions asked by 1x, 10x and 100x subscribers, and by a million: what it costs",
    expectations=(
        SPARK,
        SPARK_WORKED,
        INCOMING,
        REGISTERING,
        REGISTERING_WORKED,
        SENT,
        WORKED,
        COUNTED,
        MATCHED,
        DELIVERED,
        WRONG,
        CROWD,
        CONNECTED,
    ),
    modes=("live",),
    measure=measure,
    options=("brokers",),
)
