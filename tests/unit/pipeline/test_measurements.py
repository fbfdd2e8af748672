from pathlib import Path

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from nearcast.domain.errors import ModelError
from nearcast.pipeline.measurements import (
    COLLECTED,
    DISCARDED,
    SIMULATED,
    TRAIN,
    VALIDATE,
    Rows,
    Run,
    append,
)


def run(name: str, source: str = COLLECTED, part: str = TRAIN, topics: int = 2, ms: float = 10.0) -> Run:
    late = tuple([ms * (1 + at)] * 9 + [1000.0] for at in range(topics))
    return Run(name, source, part, (20.0,) * topics, (5.0,) * topics, late, 12.0)


def test_rows_come_back_as_sets_by_part_source_and_number_of_topics(tmp_path: Path) -> None:
    append(tmp_path, [run("b"), run("a", ms=7.0), run("v", part=VALIDATE, topics=3)])
    append(tmp_path, [run("s", SIMULATED), run("late", part=DISCARDED)])
    rows = Rows([tmp_path])
    train = rows.sets(TRAIN, (COLLECTED,))
    assert list(train) == [2]
    assert train[2].interval_ms.shape == (2, 2)
    assert train[2].p90_ms[0] == pytest.approx(
        [np.percentile([7.0] * 9 + [1000.0], 90), np.percentile([14.0] * 9 + [1000.0], 90)]
    )
    assert {topics: len(sets) for topics, sets in rows.sets(TRAIN).items()} == {2: 3}
    assert {topics: len(sets) for topics, sets in rows.sets(VALIDATE).items()} == {3: 1}
    assert (rows.runs, rows.discarded) == ({COLLECTED: 3, SIMULATED: 1}, 1)
    assert "late" not in rows.names  # it may be tried again


def test_who_judges_can_be_told_by_the_digest(tmp_path: Path) -> None:
    append(tmp_path / "one", [run("v", part=VALIDATE), run("a")])
    append(tmp_path / "two", [run("v", part=VALIDATE), run("b")])
    append(tmp_path / "three", [run("w", part=VALIDATE)])
    one, two, three = (Rows([tmp_path / each]).digest(VALIDATE) for each in ("one", "two", "three"))
    assert one == two != three


def test_simulated_rows_that_would_judge_are_refused(tmp_path: Path) -> None:
    append(tmp_path, [run("s", SIMULATED, VALIDATE)])
    with pytest.raises(ModelError, match="may only train"):
        Rows([tmp_path])


def test_what_are_no_rows_is_refused_with_the_file_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "no.parquet").write_bytes(b"no")
    with pytest.raises(ModelError, match=r"no\.parquet: cannot be read as Parquet"):
        Rows([tmp_path])
    append(tmp_path / "rows", [run("a")])
    (file,) = (tmp_path / "rows").iterdir()
    table = pq.read_table(file)
    for name, changed, says in (
        ("missing", table.drop_columns(["p90_ms"]), "no column 'p90_ms'"),
        ("half", table.slice(0, 1), "does not have one row for each"),
        ("twice", table.take([0, 1, 1]), "does not have one row for each"),
    ):
        pq.write_table(changed, tmp_path / f"{name}.parquet")
        with pytest.raises(ModelError, match=says):
            Rows([tmp_path / f"{name}.parquet"])
    append(tmp_path / "zero", [Run("z", COLLECTED, TRAIN, (0.0,), (1.0,), ([1.0],), 12.0)])
    with pytest.raises(ModelError, match="'interval_ms' has values that are not more than 0"):
        Rows([tmp_path / "zero"])


def test_a_folder_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no rows"):
        Rows([tmp_path])
