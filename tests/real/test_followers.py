"""RELOC's field from a real follower graph."""

from pathlib import Path

import numpy as np

from nearcast.lab.workloads.field import Field, drawn_area, read_followers
from nearcast.policies.area_homes import at_random, by_reloc
from nearcast.policies.settings import Allocation
from nearcast.predict.homed import delay_of


def test_real_followers_make_a_field_whose_clients_reloc_gives_homes(data: Path) -> None:
    following = read_followers(data / "social" / "ego_twitter_follows.txt")
    sizes = np.array([len(members) for members in following])
    assert (len(following), int(np.median(sizes))) == (938, 25)
    area = drawn_area(Field(), 1, following)
    assert len(area.spool) == 64
    assert np.bincount(area.topic).max() <= 21
    assert np.diff(area.first).max() <= 4
    allocation = Allocation(clusters=4)
    reloc, random = (delay_of(area, by(area, allocation)) for by in (by_reloc, at_random))
    assert reloc.y_s < random.y_s
    assert reloc.storage.sum() < random.storage.sum()
