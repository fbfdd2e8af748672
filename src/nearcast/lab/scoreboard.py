"""What every registered experiment undertakes to show, with what was last measured."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nearcast.lab.experiment import Experiment
from nearcast.lab.result import Result

_T = TypeVar("_T")


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


def newest_of(results: Iterable[tuple[Result, _T]]) -> dict[tuple[str, str, str], tuple[float | None, _T]]:
    """By experiment, claim and statement: what was measured by the first that did, and what came with that result."""
    found: dict[tuple[str, str, str], tuple[float | None, _T]] = {}
    for result, beside in results:
        for claim in result.claims:
            found.setdefault((result.experiment, claim.id, claim.statement), (claim.measured, beside))
    return found


def scoreboard(experiments: Mapping[str, Experiment], results: Iterable[Result]) -> tuple[ScoreRow, ...]:
    """A row per expectation, in the registry's order, from the first of `results` (newest first) that measured it.

    What was measured is judged by the rule as it reads now, not by what the result says of itself.
    """
    measured = newest_of((result, result) for result in results)
    rows = []
    for experiment in experiments.values():
        for one in experiment.expectations:
            found = measured.get((experiment.name, one.id, one.statement))
            if found is None:
                rows.append(ScoreRow(experiment.name, one.id, one.statement, one.expected))
                continue
            value, result = found
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
