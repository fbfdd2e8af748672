import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nearcast.cli.main import command_line
from nearcast.cli.progress import progress_bar
from nearcast.domain.errors import NearcastError
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table, silent
from nearcast.lab.registry import EXPERIMENTS

LOST = Expectation("DYN-6", "messages lost", "== 0")
FOUND = Expectation("DYN-6", "losses found [with] the barrier off", "> 0")
NAME = "dynamoth.pretended"


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    """Loses as many messages as the seed says."""
    progress(1, 1, "seeds")
    return Outcome(
        claims=(LOST.judge(settings.seed),),
        metrics={"mode": settings.mode, "seeds": settings.seeds, "faults": settings.faults, "quick": settings.quick},
        tables={"lost": Table(("seed",), ((settings.seed,),))},
    )


def fail(settings: RunSettings, _progress: Progress) -> Outcome:
    raise NearcastError(f"no {settings.mode}")


def die(_settings: RunSettings, _progress: Progress) -> Outcome:
    os._exit(3)


@pytest.fixture(autouse=True)
def _one_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(EXPERIMENTS):
        monkeypatch.delitem(EXPERIMENTS, name)
    experiment = Experiment(
        NAME, "Dynamoth", "nothing is lost", (LOST, FOUND), ("virtual", "live"), measure, ("seeds", "faults")
    )
    monkeypatch.setitem(EXPERIMENTS, NAME, experiment)
    monkeypatch.chdir(tmp_path)
    # Wide enough that no cell of a table is folded.
    monkeypatch.setenv("COLUMNS", "200")


def lab(*arguments: str) -> Result:
    return CliRunner().invoke(command_line(), ["lab", *arguments])


def test_experiments_are_listed_with_their_claims_and_modes() -> None:
    listed = lab("list")
    assert listed.exit_code == 0
    row = next(line for line in listed.stdout.splitlines() if NAME in line)
    assert row.split() == [NAME, "DYN-6", "virtual,", "live", "nothing", "is", "lost"]


def test_experiments_are_listed_as_json() -> None:
    (listed,) = json.loads(lab("list", "--json").stdout)
    assert listed["name"] == NAME
    assert listed["modes"] == ["virtual", "live"]
    assert listed["options"] == ["seeds", "faults"]
    assert listed["claims"][0] == {"id": "DYN-6", "statement": "messages lost", "expected": "== 0"}


def test_an_empty_registry_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(EXPERIMENTS, NAME)
    assert lab("list").stdout == "No experiment is registered.\n"
    assert lab("scoreboard").stdout == "No experiment is registered.\n"


def test_a_run_whose_claims_hold_says_so_and_writes_its_directory(tmp_path: Path) -> None:
    ran = lab("run", NAME, "--quick")
    assert ran.exit_code == 0, ran.output
    row = next(line for line in ran.stdout.splitlines() if "DYN-6" in line)
    assert row.split() == ["DYN-6", "messages", "lost", "==", "0", "0", "yes"]
    directory = Path("out/lab") / NAME / "virtual-quick"
    assert f"{directory / 'result.json'}\n{directory / 'lost.csv'}\n" in ran.stdout
    assert (tmp_path / directory / "lost.csv").read_text() == "seed\n0\n"


def test_a_run_with_a_claim_that_does_not_hold_says_so_and_ends_with_1() -> None:
    ran = lab("run", NAME, "--seed", "3")
    assert ran.exit_code == 1
    row = next(line for line in ran.stdout.splitlines() if "DYN-6" in line)
    assert row.split()[-2:] == ["3", "NO"]


def test_the_json_of_a_run_is_the_result_file_and_nothing_else(tmp_path: Path) -> None:
    options = ["--json", "--mode", "live", "--seed", "0", "--seeds", "5", "--faults", "--jobs", "1"]
    ran = lab("run", NAME, *options, "--out", str(tmp_path / "here"))
    assert ran.exit_code == 0
    assert ran.stdout == (tmp_path / "here" / "result.json").read_text()
    assert ran.stderr == ""
    result = json.loads(ran.stdout)
    assert (result["experiment"], result["mode"], result["seed"], result["quick"]) == (NAME, "live", 0, False)
    assert result["metrics"] == {"mode": "live", "seeds": 5, "faults": True, "quick": False}


def test_a_run_in_json_with_a_claim_that_does_not_hold_ends_with_1_too() -> None:
    ran = lab("run", NAME, "--seed", "3", "--json")
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["claims"][0]["holds"] is False


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "dynamoth.pretende"], f"did you mean '{NAME}'?"),
        (["run", NAME, "--mode", "flow"], "has no mode 'flow'; it has virtual, live"),
        (["run", NAME, "--mode", "dreamt"], "'dreamt' is not one of"),
        (["run", NAME, "--seeds", "0"], "--seeds"),
        (["run", NAME, "--jobs", "0"], "--jobs"),
        (["run"], "NAME"),
        (["scoreboard", "--results", "nowhere"], "nowhere is not a directory"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_was_wrong(arguments: list[str], complaint: str) -> None:
    ran = lab(*arguments)
    assert ran.exit_code == 2
    assert complaint in ran.stderr
    assert ran.stdout == ""


def test_a_directory_that_cannot_be_written_is_refused_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_settings: RunSettings, _progress: Progress) -> Outcome:
        pytest.fail("it was run")

    monkeypatch.setitem(EXPERIMENTS, NAME, Experiment(NAME, "Dynamoth", "", (LOST,), ("virtual",), never))
    (tmp_path / "file").touch()
    ran = lab("run", NAME, "--out", str(tmp_path / "file"))
    assert isinstance(ran.exception, NearcastError)
    assert "cannot write a result" in str(ran.exception)


def test_the_scoreboard_shows_what_was_last_measured_and_what_was_not_run() -> None:
    lab("run", NAME)
    shown = lab("scoreboard")
    assert shown.exit_code == 0
    lost, found = (line for line in shown.stdout.splitlines() if "DYN-6" in line)
    assert lost.split() == ["DYN-6", NAME, "messages", "lost", "==", "0", "0", "yes", "virtual,", "seed", "0"]
    assert "losses found [with] the barrier off" in found
    assert found.split()[-4:] == [">", "0", "not", "run"]
    assert "1 hold, 0 do not, 1 not run" in shown.stdout


def test_the_scoreboard_ends_with_1_when_a_claim_does_not_hold() -> None:
    lab("run", NAME, "--seed", "4", "--quick", "--out", "elsewhere/deep")
    shown = lab("scoreboard", "--results", "elsewhere", "--json")
    assert shown.exit_code == 1
    lost, found = json.loads(shown.stdout)
    assert (lost["measured"], lost["holds"], lost["mode"], lost["quick"], lost["seed"]) == (
        4,
        False,
        "virtual",
        True,
        4,
    )
    assert (found["measured"], found["holds"]) == (None, None)


def test_the_report_runs_everything_quickly_first_and_is_one_page(tmp_path: Path) -> None:
    done = lab("report", "--quick", "--seed", "0")
    assert done.exit_code == 0, done.output
    assert "out/lab/report.html: 1 hold, 0 do not, 1 not run" in done.output
    page = (tmp_path / "out/lab/report.html").read_text()
    assert "nearcast lab run dynamoth.pretended --mode virtual --seed 0 --quick" in page
    assert "losses found [with] the barrier off" in page


def test_the_report_ends_with_1_when_a_claim_does_not_hold_or_something_could_not_be_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert lab("report", "--quick", "--seed", "3").exit_code == 1
    for mode in ("flow", "live"):
        monkeypatch.setitem(EXPERIMENTS, f"broken {mode}", Experiment(f"broken {mode}", "", "", (), (mode,), fail))
    done = lab("report", "--quick", "--seed", "0", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["failed"] == {"broken flow": "no flow", "broken live": "no live"}


def test_the_report_says_which_were_not_run_because_their_process_died(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "deadly", Experiment("deadly", "", "", (), ("flow",), die))
    done = lab("report", "--quick", "--seed", "0", "--json")
    assert done.exit_code == 1
    assert "died" in json.loads(done.stdout)["failed"]["deadly"]


def test_progress_is_shown_only_to_a_terminal_and_only_when_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar(wanted=True) as progress:
        assert progress is silent
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar(wanted=False) as progress:
        assert progress is silent
    with progress_bar(wanted=True) as progress:
        progress(0, 4, "seeds")
        progress(3, 4, "seeds")
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "seeds" in streams.err
    assert "3/4" in streams.err
