from dataclasses import replace

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.lab.claim import Claim, Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table, silent

LOST = Expectation("DYN-6", "messages lost", "== 0")
TWICE = Expectation("DYN-6", "messages delivered twice", "== 0")


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    progress(1, 1, settings.mode)
    return Outcome(claims=(LOST.judge(settings.seed),))


EXPERIMENT = Experiment(
    name="dynamoth.reconfiguration",
    paper="Dynamoth",
    summary="nothing is lost",
    expectations=(LOST, TWICE),
    modes=("virtual", "live"),
    measure=measure,
)


def claiming(claim: Claim) -> Experiment:
    return replace(EXPERIMENT, measure=lambda _settings, _progress: Outcome(claims=(claim,)))


def test_a_run_returns_what_was_measured_and_tells_its_progress() -> None:
    seen: list[tuple[int, int, str]] = []
    outcome = EXPERIMENT.run(RunSettings("live", seed=3), lambda *steps: seen.append(steps))
    assert outcome.claims == (LOST.judge(3),)
    assert seen == [(1, 1, "live")]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (RunSettings("flow"), "no mode 'flow'; it has virtual, live"),
        (RunSettings("virtual", seeds=5), "takes one seed"),
        (RunSettings("virtual", faults=True), "no faults"),
    ],
)
def test_settings_that_an_experiment_does_not_take_are_refused_not_ignored(
    settings: RunSettings, complaint: str
) -> None:
    assert complaint in (EXPERIMENT.refusal(settings) or "")
    with pytest.raises(ConfigError, match=complaint):
        EXPERIMENT.run(settings, silent)


def test_settings_that_an_experiment_names_as_its_options_are_taken() -> None:
    with_options = replace(EXPERIMENT, options=("seeds", "faults"))
    assert with_options.refusal(RunSettings("virtual", seeds=5, faults=True)) is None


def test_a_claim_that_was_not_undertaken_is_an_error_of_the_experiment() -> None:
    rogue = replace(EXPERIMENT, expectations=(TWICE,))
    with pytest.raises(ValueError, match="does not undertake"):
        rogue.run(RunSettings("virtual"))


def test_a_claim_cannot_hold_against_its_own_rule() -> None:
    flattering = Claim(LOST.id, LOST.statement, LOST.expected, measured=4, holds=True)
    softened = Expectation(LOST.id, LOST.statement, "< 9").judge(4)
    for claim in (flattering, softened):
        with pytest.raises(ValueError, match="by its own rule"):
            claiming(claim).run(RunSettings("virtual"))


def test_a_row_that_does_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1 has 1 cells for 2 columns"):
        Table(("seed", "lost"), ((1, 0), (2,)))
