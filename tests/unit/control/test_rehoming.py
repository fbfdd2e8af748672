"""Subscribers on their way to another home."""

import pytest

from nearcast.control.rehoming import AGAIN_S, GIVE_UP_S, HomesSettings, Rehoming
from nearcast.domain.errors import ConfigError


class World:
    """Where everybody is."""

    def __init__(self, **at: str) -> None:
        self.at: dict[str, list[str]] = {client: [broker] for client, broker in at.items()}

    def __call__(self, client: str) -> tuple[list[str], list[str]]:
        at = self.at.get(client, [])
        return at, at


def test_each_is_told_at_its_present_home_and_again_until_it_is_nowhere_else() -> None:
    rehoming, world = Rehoming(10, 30.0), World(ann="b1", bob="b2")
    assert rehoming.want([("ann", "b3"), ("bob", "b3")], 0.0) == 2
    assert rehoming.tick(0.0, world) == {"b1": [("ann", "b3")], "b2": [("bob", "b3")]}
    assert rehoming.tick(1.0, world) == {}, "not at once again"
    world.at["bob"] = ["b3"]
    world.at["ann"] = ["b1", "b3"]
    assert rehoming.tick(AGAIN_S, world) == {"b1": [("ann", "b3")]}
    world.at["ann"] = ["b3"]
    assert rehoming.tick(2 * AGAIN_S, world) == {}
    assert (rehoming.moving, rehoming.waiting, rehoming.given_up) == (0, 0, 0)


def test_no_more_than_so_many_are_on_their_way() -> None:
    names = [f"c{number}" for number in range(5)]
    rehoming, world = Rehoming(2, 30.0), World(**dict.fromkeys(names, "b1"))
    rehoming.want([(name, "b2") for name in names], 0.0)
    assert rehoming.tick(0.0, world) == {"b1": [("c0", "b2"), ("c1", "b2")]}
    world.at["c1"] = ["b2"]
    assert rehoming.tick(0.5, world) == {"b1": [("c2", "b2")]}
    assert (rehoming.moving, rehoming.waiting) == (2, 2)
    rehoming.stop()
    world.at["c0"] = ["b2"]
    assert rehoming.tick(1.0, world) == {}
    assert (rehoming.moving, rehoming.waiting) == (1, 0)


def test_who_was_moved_rests() -> None:
    rehoming, world = Rehoming(10, 30.0), World(ann="b1")
    rehoming.want([("ann", "b2")], 0.0)
    rehoming.tick(0.0, world)
    assert rehoming.want([("ann", "b3")], 0.5) == 0, "it is on its way"
    world.at["ann"] = ["b2"]
    rehoming.tick(1.0, world)
    assert rehoming.want([("ann", "b1")], 29.0) == 0
    assert rehoming.want([("ann", "b1")], 30.0) == 1
    assert rehoming.tick(30.0, world) == {"b2": [("ann", "b1")]}


def test_who_does_not_go_is_given_up_and_who_is_gone_is_forgotten() -> None:
    rehoming, world = Rehoming(10, 30.0), World(ann="b1", bob="b1", zoe="b2")
    assert rehoming.want([("ann", "b2"), ("bob", "b2"), ("nobody", "b2"), ("zoe", "b2")], 0.0) == 4
    assert rehoming.tick(0.0, world) == {"b1": [("ann", "b2"), ("bob", "b2")]}
    del world.at["bob"]
    rehoming.tick(1.0, world)
    assert rehoming.moving == 1
    assert rehoming.tick(GIVE_UP_S, world) == {}
    assert (rehoming.moving, rehoming.given_up) == (0, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"placement": "farthest"}, "placement 'farthest' is not known; there are least-loaded, nearest"),
        ({"policy": "dynamoth"}, "homes.policy is 'dynamoth'; one of bad-ldm, bad-sdm, bad-shuffle, bad-groups"),
        ({"every_s": -1.0}, "homes.every_s is -1.0"),
        ({"at_once": 0}, "homes.at_once is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HomesSettings(**given)  # type: ignore[arg-type]  # of several types
