import json
import os
from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.errors import NearcastError
from nearcast.lab import result as result_module
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Outcome, RunSettings, Table
from nearcast.lab.result import check_writable, read_result, results_under, run_directory, write_result

PLAYERS = Expectation("DYN-3", "players carried, against hashing", ">= 1.60")
SETTINGS = RunSettings("flow", seed=7, quick=True)
OUTCOME = Outcome(
    claims=(PLAYERS.judge(1.72),),
    metrics={"servers": 8, "by_seed": [1.7, 1.74]},
    tables={"players": Table(("seed", "ratio"), ((7, 1.7), (8, 1.74)))},
)


def test_a_result_has_exactly_the_documented_fields(tmp_path: Path) -> None:
    write_result(tmp_path / "run", "dynamoth.scalability", SETTINGS, OUTCOME)
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == {
        "experiment": "dynamoth.scalability",
        "mode": "flow",
        "seed": 7,
        "quick": True,
        "claims": [
            {
                "id": "DYN-3",
                "statement": "players carried, against hashing",
                "expected": ">= 1.60",
                "measured": 1.72,
                "holds": True,
            }
        ],
        "metrics": {"servers": 8, "by_seed": [1.7, 1.74]},
        "artifacts": ["players.csv"],
        "command": "nearcast lab run dynamoth.scalability --mode flow --seed 7 --quick",
    }
    assert (tmp_path / "run" / "players.csv").read_text() == "seed,ratio\n7,1.7\n8,1.74\n"


def test_a_result_that_was_written_is_read_back(tmp_path: Path) -> None:
    written = write_result(tmp_path, "dynamoth.scalability", SETTINGS, OUTCOME)
    assert read_result(tmp_path) == written


def test_numbers_of_numpy_are_written_as_numbers(tmp_path: Path) -> None:
    outcome = Outcome(claims=(PLAYERS.judge(np.float64(1.5)),), metrics={"lost": np.int64(3)})  # type: ignore[dict-item]
    write_result(tmp_path, "dynamoth.scalability", SETTINGS, outcome)
    result = read_result(tmp_path)
    assert result.claims == (PLAYERS.judge(1.5),)
    assert result.metrics == {"lost": 3}


def test_a_second_run_replaces_the_first_and_its_files_but_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    write_result(tmp_path, "dynamoth.scalability", SETTINGS, OUTCOME)
    second = Outcome(claims=(), tables={"servers": Table(("n",), ((1,),))})
    write_result(tmp_path, "dynamoth.scalability", SETTINGS, second)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "result.json", "servers.csv"]


def test_the_same_run_again_has_all_its_files(tmp_path: Path) -> None:
    for _ in range(2):
        write_result(tmp_path, "dynamoth.scalability", SETTINGS, OUTCOME)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["players.csv", "result.json"]


def test_a_run_over_an_unreadable_result_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{")
    write_result(tmp_path, "dynamoth.scalability", SETTINGS, OUTCOME)
    assert read_result(tmp_path).seed == 7


def test_a_file_that_an_earlier_result_names_outside_its_directory_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    run = tmp_path / "run"
    write_result(run, "dynamoth.scalability", SETTINGS, OUTCOME)
    text = (run / "result.json").read_text()
    (run / "result.json").write_text(text.replace("players.csv", "../precious"))
    write_result(run, "dynamoth.scalability", SETTINGS, OUTCOME)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_run_that_cannot_be_written_leaves_the_earlier_one_whole(tmp_path: Path) -> None:
    write_result(tmp_path, "dynamoth.scalability", SETTINGS, OUTCOME)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for bad in (
        Outcome(claims=(), tables={"players": Table(("n",), ((1,),)), "deep/players": Table((), ())}),
        Outcome(claims=(), tables={".players": Table((), ())}),
        Outcome(claims=(), metrics={"broken": object()}),  # type: ignore[dict-item]
    ):
        with pytest.raises((ValueError, TypeError, NotImplementedError)):
            write_result(tmp_path, "dynamoth.scalability", SETTINGS, bad)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_result_file_appears_after_all_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_result(tmp_path, "dynamoth.scalability", SETTINGS, OUTCOME)
    replace = os.replace
    moved: list[tuple[str, bool]] = []

    def watch(source: Path, target: Path) -> None:
        moved.append((target.name, (tmp_path / "result.json").exists()))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    write_result(tmp_path, "dynamoth.scalability", SETTINGS, OUTCOME)
    assert moved == [("players.csv", False), ("result.json", False)]


def test_without_a_drawing_library_the_figures_are_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(result_module, "find_spec", lambda _name: None)
    outcome = Outcome(claims=(), figures={"response": lambda _figure: pytest.fail("drawn")})
    assert write_result(tmp_path, "dynamoth.scalability", SETTINGS, outcome).artifacts == ()
    assert "response; install matplotlib" in caplog.text


def test_a_directory_that_cannot_be_written_is_found_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NearcastError, match=r"cannot write a result to .*file.*choose another directory"):
        check_writable(tmp_path / "file" / "run")
    with pytest.raises(NearcastError, match="cannot write a result"):
        write_result(tmp_path / "file", "dynamoth.scalability", SETTINGS, OUTCOME)
    check_writable(tmp_path / "new" / "run")
    assert list((tmp_path / "new" / "run").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "is not a result"), ('{"experiment": "x"}', "missing required field"), (None, "cannot read .*result.json")],
)
def test_a_file_that_is_no_result_is_refused_by_its_name(tmp_path: Path, content: str | None, complaint: str) -> None:
    if content is not None:
        (tmp_path / "result.json").write_text(content)
    with pytest.raises(NearcastError, match=complaint):
        read_result(tmp_path)


def test_each_way_of_running_has_a_directory_of_its_own() -> None:
    assert run_directory(Path("out"), "dynamoth.uav", RunSettings("live")) == Path("out/dynamoth.uav/live")
    assert run_directory(Path("out"), "dynamoth.uav", RunSettings("virtual", quick=True, faults=True)) == Path(
        "out/dynamoth.uav/virtual-faults-quick"
    )


def test_results_are_found_at_any_depth_the_newest_first(tmp_path: Path) -> None:
    for place, written_s in (("a", 2), ("a/b/c", 1), ("d", 3)):
        write_result(tmp_path / place, "dynamoth.scalability", RunSettings("flow", seed=written_s), OUTCOME)
        os.utime(tmp_path / place / "result.json", (written_s, written_s))
    (tmp_path / "e" / ".partial-x").mkdir(parents=True)
    (tmp_path / "e" / ".partial-x" / "result.json").write_text("{")
    assert [result.seed for result in results_under(tmp_path)] == [3, 2, 1]
    assert results_under(tmp_path / "nowhere") == []
