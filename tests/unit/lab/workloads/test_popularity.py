import gzip
from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.errors import ConfigError
from nearcast.lab.workloads.popularity import read_weights, weights_for


def test_subscribers_of_topics_are_their_weights(tmp_path: Path) -> None:
    (tmp_path / "topics.csv").write_text("topic,subscribers,1\na,5,100\nb,50.0,1\nc,0,9\n")
    assert read_weights(tmp_path / "topics.csv").tolist() == [50.0, 5.0]


def test_counts_per_minute_are_added_up(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "calls.csv.gz", "wt") as file:
        file.write("name,480,481\na,1,2\nb,0,0\nc,10,\n")
    assert read_weights(tmp_path / "calls.csv.gz").tolist() == [10.0, 3.0]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "subscribers\nmany\n"])
def test_a_table_without_counts_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "topics.csv").write_text(text)
    with pytest.raises(ConfigError, match=r"topics\.csv"):
        read_weights(tmp_path / "topics.csv")


def test_weights_are_shares_also_of_more_topics_than_there_are_rows() -> None:
    shares = weights_for(np.array([8.0, 1.0, 1.0]), 100, np.random.default_rng(1))
    assert shares.sum() == pytest.approx(1.0)
    assert shares.max() == pytest.approx(8 * shares.min())
