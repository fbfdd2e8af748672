from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.lab.experiment import Outcome, RunSettings
from nearcast.lab.result import write_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(figure: "Figure") -> None:
    axes = figure.subplots()
    axes.plot([1, 2, 3], [3, 1, 2])
    axes.set_xlabel("servers")


def leave_blank(_figure: "Figure") -> None:
    pass


def test_a_figure_is_drawn_and_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    for place, drawing in (("first", draw), ("second", draw), ("blank", leave_blank)):
        outcome = Outcome(claims=(), figures={"response": drawing})
        written = write_result(tmp_path / place, "dynamoth.scalability", RunSettings("flow"), outcome)
        assert written.artifacts == ("response.png",)
    first, second, blank = ((tmp_path / place / "response.png").read_bytes() for place in ("first", "second", "blank"))
    assert first.startswith(b"\x89PNG")
    assert first == second
    assert first != blank
