"""Keys as subjects of a bucket."""

import pytest

from nearcast.store.nats_keys import below, decoded, encoded


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("ring", "ring"),
        ("topic/game.room1", "topic.game/room1"),
        ("topic/a:b//c", "topic.a=3Ab.=.c"),
        ("topic/é", "topic.=C3=A9"),
        ("a=3A", "a=3D3A"),
        ("", "="),
        ("/", "=.="),
    ],
)
def test_a_key_has_one_name_and_a_name_one_key(key: str, name: str) -> None:
    assert encoded(key) == name
    assert decoded(name) == key


@pytest.mark.parametrize("name", ["a=41", "a=3a", "a=", "a==", "=zz", "a.=FF", "é", "a..b", "", ".", "a*", "x" * 2000])
def test_what_another_program_wrote_has_no_key(name: str) -> None:
    assert decoded(name) is None


@pytest.mark.parametrize(
    ("prefix", "pattern"), [("", ">"), ("top", ">"), ("topic/", "topic.>"), ("topic/ga", "topic.>"), ("/a", "=.>")]
)
def test_a_prefix_is_asked_for_by_its_whole_parts(prefix: str, pattern: str) -> None:
    assert below(prefix) == pattern


def test_a_key_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="takes 1002 bytes when encoded; at most 1000 are allowed"):
        encoded("ä" * 167)
