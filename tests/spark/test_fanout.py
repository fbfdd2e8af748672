"""The lab's studies on Spark."""

import os
from pathlib import Path

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments.epulsar_placement import UAV
from nearcast.lab.result import write_result
from nearcast.pipeline.fanout import map_on_spark
from nearcast.pipeline.session import LOCAL, session
from tests.spark.conftest import Cluster


def stumble_from_three_on(seed: int) -> int:
    if seed >= 3:
        raise ConfigError(f"cannot use {seed}")
    return seed


def written(directory: Path, spark: str | None) -> dict[str, bytes]:
    settings = RunSettings(mode="flow", seed=77, seeds=8, spark=spark)
    write_result(directory, UAV.name, settings, UAV.run(settings))
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    lines = files["result.json"].splitlines()
    files["result.json"] = b"\n".join(line for line in lines if b'"command"' not in line)  # how it was run differs
    return files


@pytest.mark.timeout(600)
def test_a_study_writes_the_same_bytes_with_and_without_spark(tmp_path: Path, cluster: Cluster) -> None:
    alone = written(tmp_path / "alone", None)
    assert sorted(alone) == ["draws.csv", "placement.png", "result.json", "sizes.csv"]
    assert written(tmp_path / "local", LOCAL) == alone
    assert written(tmp_path / "cluster", cluster.master) == alone
    assert cluster.worked == ["worker-0", "worker-1"]


def test_a_session_is_the_only_one_and_brings_errors_back_as_they_are() -> None:
    with session("a test") as spark:
        assert map_on_spark(spark, stumble_from_three_on, []) == []
        assert map_on_spark(spark, stumble_from_three_on, [2, 0, 1]) == [2, 0, 1]
        with pytest.raises(ConfigError, match="cannot use 4") as caught:
            map_on_spark(spark, stumble_from_three_on, [0, 4, 3])
        assert caught.value.__notes__ == ["while running seed 4"]
        assert map_on_spark(spark, lambda _seed: os.getpid(), [1]) != [os.getpid()]
        with pytest.raises(ConfigError, match="has a Spark session already"), session("another"):
            pass
    with pytest.raises(ConfigError, match="does not start on 'nonsense': Could not parse"), session("it", "nonsense"):
        pass
