import numpy as np
import pytest
from numpy.typing import NDArray

from nearcast.lab.workloads.schedule import Schedule
from nearcast.lab.workloads.tiles import Game, World

STEADY = Schedule(((0.0, 200), (600.0, 200)))


def played(game: Game, seconds: int) -> Game:
    for now in range(seconds):
        game.step(float(now))
    return game


def counts(game: Game) -> NDArray[np.intp]:
    return np.bincount(game.tile[game.online], minlength=game.world.tiles)


def test_equal_seeds_give_equal_games_and_another_seed_another_one() -> None:
    first, again, other = (played(Game(World(), STEADY, seed), 60) for seed in (3, 3, 4))
    assert first.tile.tolist() == again.tile.tolist()
    assert first.rtt_ms.tolist() == again.rtt_ms.tolist()
    assert first.tile.tolist() != other.tile.tolist()
    assert first.topics != other.topics


def test_players_come_and_go_by_the_schedule() -> None:
    game = Game(World(), Schedule(((0.0, 10), (10.0, 30), (20.0, 5))), seed=1)
    seen, there = [], set[int]()
    for now in range(31):
        step = game.step(float(now))
        there |= set(step.joined.tolist())
        there -= set(step.left.tolist())
        assert there == set(game.online.tolist())
        assert not set(step.crossed.tolist()) & set(step.joined.tolist())
        seen.append(len(there))
    assert (seen[0], seen[5], seen[10], seen[15], seen[20], seen[30]) == (10, 20, 30, 18, 5, 5)


def test_a_step_names_exactly_those_who_came_to_another_tile() -> None:
    game = played(Game(World(speed_per_s=5.0), STEADY, seed=2), 50)
    before = game.tile.copy()
    step = game.step(50.0)
    assert len(step.crossed)
    assert step.crossed.tolist() == np.flatnonzero(before != game.tile).tolist()


def test_nobody_walks_faster_than_allowed_or_leaves_the_map() -> None:
    game = played(Game(World(speed_per_s=2.0), STEADY, seed=5), 20)
    for now in range(20, 200):
        before = game._at.copy()
        game.step(float(now))
        moved = np.hypot(*(game._at - before).T)
        assert moved.max() <= 2.0 + 1e-9
        assert game._at.min() >= 0.0
        assert game._at.max() <= 200.0


def test_a_player_rests_where_it_arrived() -> None:
    game = Game(World(side=4.0, across=2, rest_s=5.0), Schedule(((0.0, 50), (1.0, 50))), seed=5)
    still = 0
    for now in range(60):
        before = game._at.copy()
        game.step(float(now))
        still += int((game._at == before).all(axis=1).sum())
    assert still / (50 * 60) > 0.5


def test_walkers_to_random_points_crowd_the_middle() -> None:
    game = played(Game(World(speed_per_s=10.0), Schedule(((0.0, 4000), (1.0, 4000))), seed=7), 300)
    grid = counts(game).reshape(8, 8)
    middle, corner = grid[3:5, 3:5].mean(), grid[[0, 0, 7, 7], [0, 7, 0, 7]].mean()
    assert middle > 3 * corner


def test_hot_spots_draw_players_to_the_tiles_around_them() -> None:
    crowd = Schedule(((0.0, 2000), (1.0, 2000)))
    even = played(Game(World(speed_per_s=10.0), crowd, seed=7), 200)
    hot = played(Game(World(speed_per_s=10.0, hot_share=0.8), crowd, seed=7), 200)

    def near(game: Game) -> float:
        spots = np.array([50.0, 100.0, 150.0])
        return float((np.abs(game._at[:, :, None] - spots).min(axis=2) <= 10.0).all(axis=1).mean())

    assert near(hot) > 0.6
    assert near(even) < 0.2


def test_tiles_are_as_uneven_as_the_topics_whose_popularity_they_get() -> None:
    uneven = World(speed_per_s=50.0, rest_s=20.0, popularity=tuple(1.0 / rank for rank in range(1, 65)))
    game = played(Game(uneven, Schedule(((0.0, 4000), (1.0, 4000))), seed=7), 100)
    heavy = np.sort(counts(game))[::-1]
    assert heavy[0] > 5 * np.median(heavy)


def test_time_does_not_go_back() -> None:
    game = played(Game(World(), STEADY, seed=1), 5)
    with pytest.raises(ValueError, match="does not go back"):
        game.step(1.0)


def test_a_schedule_out_of_order_is_refused() -> None:
    with pytest.raises(ValueError, match="ascending"):
        Schedule(((5.0, 1), (1.0, 2)))
