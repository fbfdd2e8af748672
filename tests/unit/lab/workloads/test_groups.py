"""Players who go from group to group."""

from itertools import pairwise

import numpy as np

from nearcast.lab.workloads.groups import heard_by, joinings


def test_everybody_stays_in_a_group_for_30_to_60_seconds_and_goes_to_another() -> None:
    found = joinings(64, 8, 600.0, np.random.default_rng(1))
    assert [each.at_s for each in found[:64]] == [0.0] * 64
    assert [each.at_s for each in found] == sorted(each.at_s for each in found)
    for player in range(64):
        mine = [each for each in found if each.player == player]
        stays_s = [after.at_s - each.at_s for each, after in pairwise(mine)]
        assert all(30.0 <= stay_s <= 60.0 for stay_s in stays_s)
        assert all(after.group != each.group for each, after in pairwise(mine))
    assert {each.group for each in found} == set(range(8))


def test_the_same_seed_gives_the_same_groups() -> None:
    found = [joinings(8, 4, 200.0, np.random.default_rng(seed)) for seed in (5, 5, 6)]
    assert found[0] == found[1] != found[2]


def test_a_game_server_hears_the_groups_of_its_players() -> None:
    group_of = {0: 0, 1: 0, 2: 1, 3: 2}
    assert heard_by([1], group_of) == {0, 1}
    assert heard_by([0, 3], group_of) == {0, 1, 3}
    assert heard_by([], group_of) == set()
