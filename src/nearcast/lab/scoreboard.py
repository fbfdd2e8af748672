"""What every registered experiment undertakes to show, with what was last measured."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nearcast.lab.experiment import Experiment
from nearcast.lab.result import Result


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One expectation. `holds` None: never run, or no run measured it; then the fields of the run are None too."""

    experiment: str
    id: str
    statement: str
    expected: str
    measured: float | None = None
    holds: bool | None = None
    mode: str | None = None
    seed: int | None = None
    quick: bool | None = None


def scoreboard(experiments: Mapping[str, Experiment], results: Iterable[Result]) -> tuple[ScoreRow, ...]:
    """A row per expectation, in the registry's order, from the first of `results` (newest first) that measured it.

    What was measured is judged by the rule as it reads now, not by what the result says of itself.
    """
    measured: dict[tuple[str, str, str], tuple[Result, float | None]] = {}
    for result in results:
        for claim in result.claims:
            measured.setdefault((result.experiment, claim.id, claim.statement), (result, claim.measured))
    rows = []
    for experiment in experiments.values():
        for one in experiment.expectations:
            found = measured.get((experiment.name, one.id, one.statement))
            if found is None:
                rows.append(ScoreRow(experiment.name, one.id, one.statement, one.expected))
                continue
            result, value = found
            rows.append(
                ScoreRow(
                    experiment.name,
                    one.id,
                    one.statement,
                    one.expected,
                    measured=value,
                    holds=one.judge(value).holds,
                    mode=result.mode,
                    seed=result.seed,
                    quick=result.quick,
                )
            )
    return tuple(rows)
