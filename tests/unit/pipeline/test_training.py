"""What models are learned from, and what real runs change. A broker with other costs than the simulated one stands for
the real one, so that what is to be found out is known."""

from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.errors import ModelError
from nearcast.pipeline.latency_fit import Floats, Sets, judged
from nearcast.pipeline.measurements import COLLECTED, SIMULATED, TRAIN, VALIDATE, Rows, Run, append
from nearcast.pipeline.simulated_broker import calibrated, distance, simulated, simulated_latencies
from nearcast.pipeline.training import Curve, chosen, material, train, updated, without_real
from nearcast.predict.queueing import Processors

LASTING_S = 12.0
REAL = Processors(overhead_ms=3.0, delay_ms=4.0, lasting_s=LASTING_S)
ASSUMED = Processors(overhead_ms=0.5, delay_ms=1.0, lasting_s=LASTING_S)


def drawn(count: int, topics: int, seed: int) -> tuple[Floats, Floats]:
    """Intervals of 10 to 40 ms, and rates that keep the broker less than nine tenths busy."""
    rng = np.random.default_rng(seed)
    interval_ms = rng.uniform(10.0, 40.0, (count, topics))
    share = rng.dirichlet(np.full(topics, 4.0), count) * rng.uniform(0.2, 0.85, (count, 1))
    return interval_ms, np.maximum(1.0, np.round(1e3 * share / interval_ms))


def runs(processors: Processors, count: int, topics: int, seed: int, part: str = TRAIN) -> list[Run]:
    interval_ms, rate_hz = drawn(count, topics, seed)
    found = simulated_latencies(zip(interval_ms, rate_hz, strict=True), processors, seed)
    source = COLLECTED if processors is REAL else SIMULATED
    return [
        Run(
            f"{source}-{part}-{topics}-{seed}-{at}",
            source,
            part,
            tuple(interval_ms[at].tolist()),
            tuple(rate_hz[at].tolist()),
            tuple(each.tolist() for each in late_ms),
            LASTING_S,
        )
        for at, late_ms in enumerate(found)
    ]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("rows")
    for topics in (1, 2):
        append(folder, runs(ASSUMED, 120, topics, seed=1))
        append(folder, runs(REAL, 12, topics, seed=2))
        append(folder, runs(REAL, 40, topics, seed=3, part=VALIDATE))
    return Rows([folder])


def test_what_a_message_costs_is_found_out_from_runs() -> None:
    measured = {topics: simulated(*drawn(20, topics, seed=5), REAL, seed=6) for topics in (1, 2)}
    found = calibrated(measured, ASSUMED, seed=7)
    assert found.overhead_ms == pytest.approx(REAL.overhead_ms, rel=0.35)
    assert found.delay_ms + found.overhead_ms == pytest.approx(REAL.delay_ms + REAL.overhead_ms, rel=0.35)
    for before, after in zip(distance(measured, ASSUMED, seed=7), distance(measured, found, seed=7), strict=True):
        assert after.median_error < 0.8 * before.median_error  # the rest is chance: two runs of 12 s differ


def test_real_runs_count_as_much_as_all_simulated_ones(rows: Rows) -> None:
    given = material(rows, ASSUMED)
    for topics in (1, 2):
        real, made = given.weights[topics][:12], given.weights[topics][12:]
        assert len(made) == 120
        assert real.sum() == pytest.approx(made.sum())
    fewer = material(rows, ASSUMED, most_real=3)
    assert len(fewer.sets[2]) == 123
    assert fewer.weights[2][:3].sum() == pytest.approx(120)


def test_a_few_real_runs_bring_the_model_to_the_real_broker(rows: Rows) -> None:
    given = material(rows, ASSUMED)
    with_real = train(given, "queueing", name="both", hidden={1: (10, 10), 2: (10, 10)})
    alone = train(without_real(given, rows), "queueing", name="simulated", hidden={1: (10, 10), 2: (10, 10)})
    assert [each.topics for each in with_real.accuracy] == [1, 2]
    for both, simulated_only in zip(with_real.accuracy, alone.accuracy, strict=True):
        assert both.r2 > simulated_only.r2 + 0.1


def test_a_model_says_by_which_runs_it_was_judged(rows: Rows) -> None:
    model = train(material(rows, ASSUMED, seed=4), "colocated", name="paper's", hidden={2: (10, 10)})
    assert model.origin is not None
    assert (model.origin.runs, model.origin.seed) == ({COLLECTED: 104, SIMULATED: 240}, 4)
    assert model.origin.digest == rows.digest(VALIDATE)
    sets = rows.sets(VALIDATE)[2]
    expected_ms = model.p90_ms(sets.interval_ms, sets.rate_hz)
    assert model.accuracy[1] == judged(expected_ms, sets.p90_ms)


def test_a_number_of_topics_without_runs_is_named(tmp_path: Path) -> None:
    append(tmp_path, runs(ASSUMED, 3, 1, seed=1) + runs(ASSUMED, 3, 3, seed=1))
    with pytest.raises(ModelError, match="no runs of 2 topics"):
        material(Rows([tmp_path]), ASSUMED)


def test_the_smallest_network_that_no_other_is_much_better_than_is_chosen() -> None:
    def curve(topics: int, hidden: int, error: float) -> Curve:
        return Curve(topics, (hidden, hidden), ((8, 1.0, 2.0), (100, 0.1, error)))

    found = chosen(
        [curve(2, 100, 0.200), curve(2, 10, 0.205), curve(3, 10, 0.4), curve(3, 40, 0.3), curve(3, 100, 0.29)]
    )
    assert found == {2: (10, 10), 3: (40, 40)}


def test_what_was_measured_since_is_heard_among_many(rows: Rows) -> None:
    given = material(rows, ASSUMED)
    interval_ms, rate_hz = drawn(2, 2, seed=9)
    fresh = {2: Sets(interval_ms, rate_hz, np.full((2, 2), 50.0)), 5: Sets(*(np.ones((1, 5)) for _ in range(3)))}
    after = updated(given, fresh, share=0.25)
    weights = after.weights[2]
    assert weights[-2:].sum() == pytest.approx(0.25 * weights.sum())
    assert sorted(after.sets) == [1, 2]  # of five topics there is no model to update
    assert len(after.sets[2]) == len(given.sets[2]) + 2
