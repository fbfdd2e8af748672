"""Small models, learned from the simulated broker: a simulated run may stand for a real one only here."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.errors import ModelError
from nearcast.lab.experiment import silent
from nearcast.lab.measuring import Planned, collect_simulated, missing, planned
from nearcast.lab.workloads.colocated import most_rates_of
from nearcast.pipeline.latency_fit import Sets, judged
from nearcast.pipeline.measurements import COLLECTED, SIMULATED, TRAIN, VALIDATE, Rows, Run, append
from nearcast.pipeline.simulated_broker import calibrated, distance, simulated, simulated_latencies
from nearcast.pipeline.training import Curve, chosen, curves, material, train, updated
from nearcast.predict.latency_model import model_from_json
from nearcast.predict.queueing import Processors

REAL = Processors(1, overhead_ms=3.0, delay_ms=8.0, lasting_s=2.0)  # an imagined machine
GUESS = Processors(1, overhead_ms=0.5, delay_ms=1.0, lasting_s=2.0)


def plan(source: str, runs: int, validate: int, processors: Processors) -> list[Planned]:
    most_hz = most_rates_of(processors)
    return planned((1, 2), runs=runs, validate=validate, most_hz=most_hz, processors=processors, seed=3, source=source)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("rows")
    collect_simulated(plan(SIMULATED, 40, 0, GUESS), folder, GUESS, 1, silent)
    measured = plan(COLLECTED, 12, 20, REAL)
    sets = [(np.array(each.interval_ms), np.array(each.rate_hz)) for each in measured]
    found = simulated_latencies(sets, REAL, 9)
    append(
        folder,
        [
            Run(each.name, COLLECTED, each.part, each.interval_ms, each.rate_hz, tuple(late), 2.0)
            for each, late in zip(measured, found, strict=True)
        ],
    )
    return Rows([folder])


def test_runs_are_the_same_however_many_are_asked_for_and_only_what_is_missing_is_left(tmp_path: Path) -> None:
    few, many = plan(SIMULATED, 2, 0, GUESS), plan(SIMULATED, 4, 0, GUESS)
    assert set(few) < set(many)
    assert len({each.name for each in plan(COLLECTED, 3, 3, GUESS)}) == 12
    collect_simulated(few, tmp_path, GUESS, 1, silent)
    assert missing(many, tmp_path) == [each for each in many if each not in few]
    assert collect_simulated(many, tmp_path, GUESS, 1, silent).runs == 4


def test_calibration_brings_the_simulated_broker_near_to_what_was_measured(rows: Rows) -> None:
    found = calibrated(rows.sets(TRAIN, (COLLECTED,)), GUESS)
    assert found.delay_ms == pytest.approx(REAL.delay_ms, rel=0.3)
    before, after = (distance(rows.sets(VALIDATE), each) for each in (GUESS, found))
    assert all(one.median_error > two.median_error for one, two in zip(before, after, strict=True))


def test_a_model_says_what_it_was_learned_from_and_is_judged_by_real_runs_alone(rows: Rows) -> None:
    given = material(rows, REAL, seed=5)
    model = train(given, "colocated", name="m")
    assert model.origin.runs == {COLLECTED: 64, SIMULATED: 80}
    assert (model.origin.validation, model.origin.digest) == (40, rows.digest(VALIDATE))
    assert [(each.topics, each.rows) for each in model.accuracy] == [(1, 20), (2, 40)]
    assert model_from_json(model.to_json(), "m") == model
    assert train(given, "colocated", name="m") == model


def test_real_runs_are_heard_among_many_more_simulated_ones(rows: Rows) -> None:
    (judging,) = (rows.sets(VALIDATE)[each] for each in (2,))

    def error(most_real: int) -> float:
        model = train(material(rows, REAL, most_real=most_real), "colocated", name="m")
        return judged(model.p90_ms(judging.interval_ms, judging.rate_hz), judging.p90_ms).median_error

    assert error(12) < error(0)


def test_with_what_a_queue_tells_few_runs_are_enough(rows: Rows) -> None:
    given = replace(material(rows, REAL), sets=rows.sets(TRAIN, (COLLECTED,)))
    given = replace(given, weights={topics: np.ones(len(each)) for topics, each in given.sets.items()})
    paper, queue = (train(given, inputs, name="m").accuracy for inputs in ("colocated", "queueing"))
    assert np.mean([each.r2 for each in queue]) > np.mean([each.r2 for each in paper])


def test_what_a_fleet_measured_brings_the_next_prediction_nearer(rows: Rows) -> None:
    given = material(rows, REAL)
    fresh = Sets(np.array([[20.0, 20.0]]), np.array([[10.0, 10.0]]), np.array([[900.0, 900.0]]))
    before, after = (
        train(each, "queueing", name="m").p90_ms(fresh.interval_ms, fresh.rate_hz)
        for each in (given, updated(given, {2: fresh}))
    )
    assert np.all(np.abs(np.log(after / 900.0)) < 0.5 * np.abs(np.log(before / 900.0)))


def test_numbers_of_topics_without_runs_are_named(tmp_path: Path) -> None:
    append(tmp_path, [Run("a", COLLECTED, TRAIN, (10.0,) * 3, (1.0,) * 3, ([1.0],) * 3, 12.0)])
    with pytest.raises(ModelError, match="no runs of 1 topics to learn from, but of 3"):
        material(Rows([tmp_path]), REAL)


def test_the_smallest_network_that_is_nearly_the_best_is_chosen(rows: Rows) -> None:
    def curve(wide: int, error: float) -> Curve:
        return Curve(2, (wide, wide), ((10, 0.0, 1.0), (20, 0.0, error)))

    assert chosen([curve(100, 0.100), curve(40, 0.104), curve(10, 0.2)]) == {2: (40, 40)}
    drawn = curves(material(rows, REAL), "queueing", [2], ((4, 4), (8, 8)))
    assert [each.hidden for each in drawn] == [(4, 4), (8, 8)]
    assert all(each.points[-1][0] > each.points[0][0] for each in drawn)


def test_the_simulated_broker_is_the_same_for_the_same_seed() -> None:
    columns = np.array([[20.0, 10.0]]), np.array([[10.0, 30.0]])
    one, same, other = (simulated(*columns, GUESS, seed).p90_ms.tolist() for seed in (1, 1, 2))
    assert one == same != other
