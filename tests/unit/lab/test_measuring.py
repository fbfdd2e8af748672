"""Which runs a model is learned from."""

from pathlib import Path

from nearcast.lab.experiment import silent
from nearcast.lab.measuring import Planned, collect_simulated, missing, planned
from nearcast.lab.workloads.colocated import most_rates_of
from nearcast.pipeline.measurements import COLLECTED, SIMULATED
from nearcast.predict.queueing import Processors

GUESS = Processors(1, overhead_ms=0.5, delay_ms=1.0, lasting_s=2.0)


def plan(source: str, runs: int, validate: int, processors: Processors) -> list[Planned]:
    most_hz = most_rates_of(processors)
    return planned((1, 2), runs=runs, validate=validate, most_hz=most_hz, processors=processors, seed=3, source=source)


def test_runs_are_the_same_however_many_are_asked_for_and_only_what_is_missing_is_left(tmp_path: Path) -> None:
    few, many = plan(SIMULATED, 2, 0, GUESS), plan(SIMULATED, 4, 0, GUESS)
    assert set(few) < set(many)
    assert len({each.name for each in plan(COLLECTED, 3, 3, GUESS)}) == 12
    collect_simulated(few, tmp_path, GUESS, 1, silent)
    assert missing(many, tmp_path) == [each for each in many if each not in few]
    assert collect_simulated(many, tmp_path, GUESS, 1, silent).runs == 4
