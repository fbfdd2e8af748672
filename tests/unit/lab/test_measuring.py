"""Which runs a model is learned from."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nearcast.lab.experiment import silent
from nearcast.lab.live import pinned
from nearcast.lab.live.pinned import Topic
from nearcast.lab.live.processed import Heard
from nearcast.lab.measuring import Planned, collect, collect_simulated, missing, planned
from nearcast.lab.workloads.colocated import most_rates_of
from nearcast.pipeline.measurements import COLLECTED, SIMULATED, Rows
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


class Disturbed:
    """A broker of which the first so many measurements tell nothing; notes what was asked of it."""

    def __init__(self, first: int) -> None:
        self.asked: list[tuple[float, ...]] = []
        self._first = first

    async def measure(self, topics: Sequence[Topic], seed: int) -> Heard:  # noqa: ARG002  # as the broker's
        self.asked.append(tuple(each.rate_hz for each in topics))
        late_ms = tuple((12.0, 13.0) for _ in topics)
        return Heard(late_ms, 0.1, 0, 0, stolen=0.3 if len(self.asked) <= self._first else 0.0)


def test_why_a_measurement_tells_nothing_of_the_broker() -> None:
    quiet = Heard(((12.0,),), 5.0, 0, 0, 0.02)
    assert quiet.fault is None
    assert Heard(((12.0,),), 0.0, 0, 0, 0.021).fault == "the machine's host took 2.1% of a processor"
    assert Heard(((12.0,),), 5.1, 0, 0).fault == "the load generator was 5.1 ms late"
    assert Heard(((12.0,),), 0.0, 2, 0).fault == "2 messages were lost"
    assert Heard(((12.0,), ()), 0.0, 0, 0).fault is not None


@pytest.mark.parametrize("first", [3, 100])
async def test_what_was_disturbed_is_kept_apart_and_tried_again_after_all_others(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, said = Disturbed(first), list[str]()

    @asynccontextmanager
    async def disturbed(_kind: str, **_settings: float) -> AsyncIterator[Disturbed]:
        yield broker

    monkeypatch.setattr(pinned, "pinned_broker", disturbed)
    plan_, wanted = plan(COLLECTED, 1, 1, GUESS), 4
    assert len(plan_) == wanted
    found = await collect(
        plan_, tmp_path, kind="nats", lasting_s=2.0, warm_up_s=0.3, for_s=None, progress=silent, say=said.append
    )
    rates = [each.rate_hz for each in plan_]
    assert broker.asked[: wanted + 3] == rates + rates[:3]
    assert len(said) == found.discarded
    if first == 3:
        assert (found.runs, found.discarded, found.left) == (4, 3, 0)
        assert Rows([tmp_path]).names == {each.name for each in plan_}
        assert missing(plan_, tmp_path) == []
    else:
        assert (found.runs, found.discarded, found.left) == (0, 32, 4)
        assert missing(plan_, tmp_path) == plan_
    assert Rows([tmp_path]).discarded == found.discarded
