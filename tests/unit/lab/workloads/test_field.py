"""The field of RELOC: what its generator and the readers of follower lists promise."""

from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.errors import ConfigError
from nearcast.domain.snapshot_json import read_snapshot, write_snapshot
from nearcast.lab.workloads.field import Field, drawn_area, grid, read_followers, snapshot_of


@pytest.mark.parametrize("shared", [True, False])
def test_topics_are_of_the_papers_sizes_and_nobody_has_more_than_may_be(shared: bool) -> None:
    area = drawn_area(Field(shared=shared), 3)
    sizes, topics = np.bincount(area.topic), np.diff(area.first)
    assert len(sizes) == 64
    assert (sizes.min() >= 2, sizes.max() <= 21) == (True, True)
    assert topics.max() <= (4 if shared else 1)
    assert (topics.max() > 1) == shared
    assert area.spool.tolist() == (2.0 * sizes).tolist()
    assert ((area.at.vec >= 0.0) & (area.at.vec <= 25e-4)).all()


def test_members_are_near_their_middle_where_sigma_is_small() -> None:
    area = drawn_area(Field(sigma_km=1.0, shared=False), 3)
    far_km = [np.ptp(area.at.vec[area.owner[area.topic == topic]], axis=0).max() * 1e4 for topic in range(64)]
    assert np.mean(far_km) < 5.0
    wide = drawn_area(Field(sigma_km=15.0, shared=False), 3)
    assert np.ptp(wide.at.vec[wide.owner[wide.topic == 0]]) > 0


def test_equal_seeds_give_equal_fields() -> None:
    one, other = (drawn_area(Field(), 9) for _ in range(2))
    assert (one.at.vec == other.at.vec).all()
    assert (one.topic == other.topic).all()
    assert not np.array_equal(drawn_area(Field(), 10).topic, one.topic)


def test_sixteen_servers_are_on_a_grid() -> None:
    found = grid(16, 25.0)
    assert sorted(set(found[:, 0].tolist())) == sorted(set(found[:, 1].tolist())) == [3.125, 9.375, 15.625, 21.875]
    assert len(grid(7, 25.0)) == 7


def test_followers_are_read_as_the_paper_writes_them_and_as_pairs(tmp_path: Path) -> None:
    file = tmp_path / "followers.txt"
    file.write_text("follower, followees\n1000336, [1001726, 1006631]\n1000351, [1010402]\n")
    assert [each.tolist() for each in read_followers(file)] == [[1000336, 1001726, 1006631], [1000351, 1010402]]
    file.write_text("% a comment\n1 2 \n1 3 \n4 1 \n")
    assert [each.tolist() for each in read_followers(file)] == [[1, 2, 3], [1, 4]]


@pytest.mark.parametrize(
    ("text", "what"),
    [("", "has no line like"), ("7, []\n", "line 1: '7, \\[\\]' names nobody"), (None, "cannot be read")],
)
def test_files_without_followers_are_refused(tmp_path: Path, text: str | None, what: str) -> None:
    file = tmp_path / "followers.txt"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=what):
        read_followers(file)


def test_a_file_with_too_few_topics_is_refused() -> None:
    with pytest.raises(ConfigError, match="has 1 topics of 2 to 21 members; 64 are asked for"):
        drawn_area(Field(), 0, [np.array([1, 2, 3])])


def test_a_field_is_read_as_it_was_written() -> None:
    seen = snapshot_of(drawn_area(Field(topics=5), 2))
    written = write_snapshot(seen)
    assert write_snapshot(read_snapshot(written)) == written
