"""Subscribers who ask the same thing share it: what is judged, and a small run on real servers with Spark."""

from dataclasses import replace

import pytest

from nearcast.domain.execution import Execution
from nearcast.lab.claim import Claim
from nearcast.lab.experiment import RunSettings, silent
from nearcast.lab.experiments.bad_sharing import (
    COUNTED,
    DELIVERED,
    EXPERIMENT,
    INCOMING,
    MATCHED,
    REGISTERING,
    REGISTERING_WORKED,
    SENT,
    SPARK,
    WORKED,
    WRONG,
    judged,
    measured,
)
from nearcast.lab.live.channel_fleet import Memory
from nearcast.lab.live.sharing import Crowd, Registration, Round, Run, Scale, Shared

TINY = Scale(
    areas=5,
    factors=(1, 2, 8),
    warm_up=1,
    executions=2,
    idle_s=0.5,
    idles=2,
    registrations=2,
    lease_s=16.0,
    gap_s=3.0,
    crowd=400,
    crowd_areas=40,
    crowd_executions=2,
    clients=30,
    client_processes=1,
    parties=10,
    party_processes=2,
)


def run(took_s: float = 1.0, in_bytes: float = 1e6, out_bytes: float = 1e6, cpu_s: float = 0.02) -> Run:
    return Run(Execution(1, 0.0, took_s=took_s), in_bytes, out_bytes, 0.1, cpu_s / 2, cpu_s / 2, 1.0)


def shared() -> Shared:
    """As it is when everything is shared."""
    rounds = tuple(
        Round(
            factor,
            200 * factor,
            200,
            (Registration(200 * factor, 0.1 * factor, 0.01 * factor),) * 3,
            (run(out_bytes=1e6 * factor),),
        )
        for factor in (1, 10, 100)
    )
    registration, memory = Registration(1000, 1.0, 1.0), Memory(1, 1, 1, 1)
    crowd = Crowd(1000, 10, 20, 100, 1000, 1000, 1000, 1000, 0, registration, registration, (run(),), memory, memory)
    again = tuple(replace(each, registrations=(), again=True) for each in reversed(rounds[:-1]))
    return Shared((*rounds, *again), crowd, 0)


def failing(found: Shared) -> list[Claim]:
    return [claim for claim in judged(found) if not claim.holds]


def with_last(found: Shared, each: Run) -> Shared:
    first, second, last, *again = found.rounds
    return replace(found, rounds=(first, second, replace(last, runs=(each,)), *again))


def test_what_is_shared_holds() -> None:
    assert failing(shared()) == []


@pytest.mark.parametrize(
    ("each", "statement"),
    [
        (run(took_s=1.21, out_bytes=1e8), SPARK.statement),
        (run(in_bytes=1.06e6, out_bytes=1e8), INCOMING.statement),
        (run(out_bytes=1e9), SENT.statement),
        (run(out_bytes=1e8, cpu_s=20.0), WORKED.statement),
    ],
)
def test_an_execution_that_costs_more_with_more_subscribers_does_not_hold(each: Run, statement: str) -> None:
    assert [claim.statement for claim in failing(with_last(shared(), each))] == [statement]


def test_processor_time_of_which_too_much_was_subtracted_is_not_measured() -> None:
    first, second, last, *again = shared().rounds
    runs = (run(out_bytes=1e8, cpu_s=0.5), run(out_bytes=1e8, cpu_s=-0.04))
    found = replace(shared(), rounds=(first, second, replace(last, runs=runs), *again))
    assert [(claim.statement, claim.measured) for claim in failing(found)] == [(WORKED.statement, None)]


def test_what_became_slower_by_itself_is_not_held_against_sharing() -> None:
    first, second, last, *again = shared().rounds
    last = replace(last, runs=(run(took_s=1.3, out_bytes=1e8),))
    slower = [replace(each, runs=(run(took_s=1.4),)) for each in again]
    assert failing(replace(shared(), rounds=(first, second, last, *slower))) == []


@pytest.mark.parametrize(("afterwards_s", "wrong"), [(1.0, []), (1.5, [SPARK.statement])])
def test_what_is_slow_with_10x_is_so_again_on_the_way_down(afterwards_s: float, wrong: list[str]) -> None:
    first, second, last, second_again, first_again = shared().rounds
    slow = replace(second, runs=(run(took_s=1.0), run(took_s=1.5), run(took_s=1.5)))
    again = replace(second_again, runs=(run(took_s=afterwards_s),) * 2)
    found = replace(shared(), rounds=(first, slow, last, again, first_again))
    assert [claim.statement for claim in failing(found)] == wrong


def test_registration_that_grows_faster_than_its_subscribers_does_not_hold() -> None:
    first, second, last, *again = shared().rounds
    one, slow = last.registrations[0], replace(last.registrations[0], took_s=20.0, agent_s=2.0)
    for registrations, wrong in (((slow, one, slow), [REGISTERING, REGISTERING_WORKED]), ((one, slow, one), [])):
        found = replace(shared(), rounds=(first, second, replace(last, registrations=registrations), *again))
        assert [claim.statement for claim in failing(found)] == [each.statement for each in wrong]


def test_one_of_the_crowd_who_is_missed_does_not_hold() -> None:
    found = shared()
    crowd = replace(found.crowd, counted=999, matched=999, delivered=999)
    lost = [claim.statement for claim in failing(replace(found, crowd=crowd, wrong=1))]
    assert lost == [COUNTED.statement, MATCHED.statement, DELIVERED.statement, WRONG.statement]


def test_what_must_hold_is_undertaken() -> None:
    assert {each.id for each in EXPERIMENT.expectations} == {"BAD-8"}
    assert {"< 1.2", "< 1.05", ">= 1000000", ">= 2000"} <= {each.expected for each in EXPERIMENT.expectations}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["nats", "redis"])
def test_everybody_is_registered_matched_and_served_once(kind: str) -> None:
    settings = RunSettings("live", seed=5, quick=True, brokers=kind)  # type: ignore[arg-type]  # one of them
    outcome = measured(TINY, settings, silent)
    held = {claim.statement: claim.holds for claim in outcome.claims}
    exact = (COUNTED, MATCHED, DELIVERED, WRONG, SENT)  # times are not judged in a run of a minute
    assert {each.statement: held[each.statement] for each in exact} == {each.statement: True for each in exact}
    crowd = outcome.metrics["crowd"]
    assert isinstance(crowd, dict)
    assert (crowd["registered"], crowd["questions"], crowd["delivered"]) == (400, 40, 800)
