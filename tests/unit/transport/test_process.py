"""What every process of ours does when it is ready."""

import gc
import json

import pytest

from nearcast.transport.process import say_ready


def test_who_is_ready_says_so_in_a_line_and_has_nothing_more_for_the_collector_to_look_through(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not gc.get_freeze_count()
    try:
        say_ready(agent="b1")
        assert gc.get_freeze_count() > 10_000, "modules alone are more objects than that"
    finally:
        gc.unfreeze()
    assert json.loads(capsys.readouterr().out) == {"ready": True, "agent": "b1"}
