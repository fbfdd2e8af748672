import re
import sys

import pytest

from nearcast.cli import main as main_module
from nearcast.domain.errors import StoreDown


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["nearcast", *arguments])
    with pytest.raises(SystemExit) as ended:
        main_module.main()
    code = ended.value.code
    assert isinstance(code, int)
    return code


def test_the_version_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert re.fullmatch(r"nearcast \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_without_a_command_the_help_is_shown_as_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 2
    streams = capsys.readouterr()
    assert "Exit codes: 0" in streams.out + streams.err


def test_an_unknown_command_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "lab", "lisst") == 2
    assert "Did you mean 'list'?" in capsys.readouterr().err


def test_a_mistyped_command_is_compared_with_all_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "topics") == 2
    assert "Did you mean 'topic'?" in capsys.readouterr().err


def test_the_help_names_every_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--help") == 0
    listed = re.findall(r"^  (\w+)  ", capsys.readouterr().out.split("Commands:")[1], re.MULTILINE)
    assert listed == list(main_module.COMMANDS)


def test_an_error_of_ours_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        error = StoreDown("the store at 127.0.0.1:4222 does not answer")
        error.add_note("while running seed 7")
        raise error

    monkeypatch.setattr("nearcast.cli.status.show_status", fail)
    assert run(monkeypatch, "status") == 1
    assert capsys.readouterr().err == "nearcast: the store at 127.0.0.1:4222 does not answer (while running seed 7)\n"
