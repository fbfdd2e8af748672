"""Experiments on homes in an area, in quick mode: what they write, and the claims that must hold."""

import pytest

from nearcast.lab.experiment import RunSettings
from nearcast.lab.registry import find
from nearcast.lab.result import write_result


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reloc.locality", "reloc.spool", "reloc.clusters"])
def test_fields_are_measured_by_every_method_and_drawn(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = RunSettings(mode="flow", quick=True, seeds=1)
    outcome = find(name).run(settings)
    written = write_result(tmp_path_factory.mktemp("out"), name, settings, outcome)
    assert len(written.artifacts) == len(outcome.tables) + len(outcome.figures)
    held = {claim.statement for claim in written.claims if claim.holds}
    if name == "reloc.locality":
        assert sum(statement.startswith(("way to homes of NS", "storage of RELOC")) for statement in held) == 4


def test_the_search_is_nearer_to_the_optimum_than_reloc_and_nothing_beats_what_was_proved() -> None:
    outcome = find("reloc.optimality").run(RunSettings(mode="flow", quick=True, seeds=3))
    assert all(claim.holds for claim in outcome.claims)
