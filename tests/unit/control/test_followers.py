"""What an agent tells the coordinator of its followers: soon of who comes and leaves, now and then of everybody."""

import math

import pytest

from nearcast.control.followers import ROUND_S, Followers, TopicUser
from nearcast.wire.channels import AtHome, HomedClient, Resident
from nearcast.wire.control import seal
from nearcast.wire.dialect import Dialect

NATS_TAKES = 1_000_000
DIALECT = Dialect(b"key")


def told(messages: list[AtHome]) -> dict[str, set[str]]:
    """Everybody's keys, from all parts."""
    out: dict[str, set[str]] = {}
    for message in messages:
        for each in message.residents:
            out.setdefault(each.client, set()).update(message.keys[number][0] for number in each.keys)
    return out


def quiet() -> Followers:
    """After its first round, which tells of nobody."""
    followers = Followers("b1", 100)
    assert followers.tick(0.0) == [AtHome("b1", 101, 1)]
    return followers


def test_who_comes_is_told_of_soon_together_with_others_and_keys_are_named_once() -> None:
    followers = quiet()
    followers.follows("ann", "k1", (), 1.0)
    followers.follows("bob", "k1", (), 1.1)
    followers.follows("bob", "k2", (), 1.1)
    assert followers.tick(1.1) == []
    assert followers.wake_s() < ROUND_S
    (news,) = followers.tick(followers.wake_s())
    assert (news.round, news.parts, news.keys) == (101, 0, (("k1", 0.0), ("k2", 0.0)))
    assert news.residents == (Resident("ann", (0,)), Resident("bob", (0, 1)))
    assert followers.wake_s() == ROUND_S, "nobody is new any more"


def test_everybody_is_told_of_in_rounds() -> None:
    followers = quiet()
    followers.follows("ann", "k1", (), 1.0)
    (whole,) = followers.tick(ROUND_S)
    assert (whole.round, whole.parts, told([whole])) == (102, 1, {"ann": {"k1"}})
    assert followers.tick(ROUND_S) == [], "once"
    assert told(followers.tick(2 * ROUND_S)) == {"ann": {"k1"}}


def test_who_has_left_is_told_of_soon_and_who_was_back_before_that_is_not() -> None:
    followers = quiet()
    for client in ("ann", "bob"):
        followers.follows(client, "k1", (), 1.0)
    followers.tick(2.0)
    followers.follows("ann", "k2", (), 3.0)
    followers.leaves("ann", "k1", 3.0)
    assert followers.wake_s() == ROUND_S, "ann follows another key yet"
    for client, key in (("ann", "k2"), ("bob", "k1")):
        followers.leaves(client, key, 3.0)
    followers.follows("bob", "k1", (), 3.1)
    changes = followers.tick(followers.wake_s())
    assert [each.left for each in changes if each.left] == [("ann",)]
    assert told(changes) == {"bob": {"k1"}}


def test_where_a_client_is_is_told_when_it_is_first_known() -> None:
    followers, near = quiet(), (("b2", 0.003), ("b1", 0.020))
    followers.follows("ann", "k1", (), 1.0)
    followers.tick(1.5)
    followers.follows("ann", "k1", near, 2.0)
    (news,) = followers.tick(2.5)
    assert news.residents == (Resident("ann", (0,), near),)
    followers.follows("ann", "k1", near, 3.0)
    assert followers.wake_s() == ROUND_S


def test_what_is_published_for_a_key_is_told_as_bytes_a_second() -> None:
    followers = quiet()
    followers.follows("ann", "k1", (), 1.0)
    for second in range(10):
        followers.published("k1", 700)
        followers.tick(float(second))
    (whole,) = followers.tick(10.0)
    ((key, rate),) = whole.keys
    assert (key, round(rate / 700.0)) == ("k1", 1)
    followers.leaves("ann", "k1", 10.0)
    followers.dropped("k1")
    followers.follows("ann", "k1", (), 11.0)
    (news,) = followers.tick(12.0)
    assert news.keys == (("k1", 0.0),), "what was measured before has gone with the key"


def test_ten_thousand_clients_with_twenty_keys_each_fit_into_messages_that_a_server_takes() -> None:
    followers = quiet()
    wanted = {
        f"subscriber-of-a-rather-long-name-{number}": {f"{(number * 7 + at * 13) % 2200:032x}" for at in range(20)}
        for number in range(10_000)
    }
    for client, keys in wanted.items():
        for key in keys:
            followers.follows(client, key, (("broker-1", 0.01),) * 4, 1.0)
    messages = followers.tick(ROUND_S)
    sizes = [len(seal(each, DIALECT)) for each in messages]
    assert max(sizes) < NATS_TAKES
    assert {each.parts for each in messages} == {len(messages)}
    assert told(messages) == wanted


def test_a_client_with_more_keys_than_one_message_takes_is_told_in_parts() -> None:
    followers = quiet()
    keys = {f"{number:032x}" for number in range(30_000)}
    for key in keys:
        followers.follows("ann", key, (), 1.0)
    messages = followers.tick(ROUND_S)
    assert len(messages) > 1
    assert max(len(seal(each, DIALECT)) for each in messages) < NATS_TAKES
    assert told(messages) == {"ann": keys}


def test_many_who_leave_at_once_fit_too() -> None:
    followers = quiet()
    names = [f"subscriber-of-a-rather-long-name-{number}" for number in range(20_000)]
    for name in names:
        followers.follows(name, "k1", (), 1.0)
    followers.tick(2.0)
    for name in names:
        followers.leaves(name, "k1", 3.0)
    changes = followers.tick(4.0)
    assert max(len(seal(each, DIALECT)) for each in changes) < NATS_TAKES
    assert [name for each in changes for name in each.left] == names


def test_when_it_may_not_have_been_heard_everybody_is_told_of_at_once() -> None:
    followers = quiet()
    followers.follows("ann", "k1", (), 1.0)
    followers.tick(2.0)
    followers.anew()
    assert followers.wake_s() < 2.5
    assert told(followers.tick(2.5)) == {"ann": {"k1"}}


def test_there_is_always_a_next_round() -> None:
    assert Followers("b1", 1).wake_s() == -math.inf
    assert quiet().wake_s() == ROUND_S


def test_of_a_crowd_rounds_are_seldom_and_rates_come_in_between() -> None:
    followers = Followers("b1", 1)
    for number in range(20_000):
        followers.follows(f"c{number}", f"k{number % 10}", (), 0.0)
    told = followers.tick(0.0)
    assert sum(len(each.residents) for each in told) == 20_000
    assert followers.wake_s() == ROUND_S
    (between,) = followers.tick(ROUND_S)
    assert (between.parts, between.residents) == (0, ()), "that it is there, and what its keys are"
    assert followers.tick(2 * ROUND_S)[0].parts > 0, "20,000 at 2,000 a second"


def test_of_a_larger_crowd_a_part_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.control.followers.MOST_TOLD", 5)
    followers = Followers("b1", 1)
    followers.tick(0.0)
    for number in range(8):
        followers.follows(f"c{number}", "k", (), 0.0)
    assert sum(len(each.residents) for each in followers.tick(1.0)) == 5
    assert sum(len(each.residents) for each in followers.tick(ROUND_S)) == 5


def test_who_uses_homed_topics_is_told_of_in_every_round_with_what_it_says_of_itself() -> None:
    users = {"ann": TopicUser(("t",), ("t", "u"), "b2", (0.5, 0.1)), "bob": TopicUser((), ("u",))}
    followers = Followers("b1", 1, lambda: users)
    (told,) = followers.tick(0.0)
    assert told.topics == ("t", "u")
    assert told.homed == (HomedClient("ann", (0,), (0, 1), "b2", (0.5, 0.1)), HomedClient("bob", (), (1,)))
    users.clear()
    assert followers.tick(ROUND_S)[0].homed == ()


def test_a_crowd_of_them_comes_in_parts_that_a_server_takes() -> None:
    users = {
        f"a-client-of-long-name-{number}": TopicUser((f"t{number}",), ("t",), "b1", (0.1,) * 9)
        for number in range(9000)
    }
    followers = Followers("b1", 1, lambda: users)
    parts = followers.tick(0.0)
    assert len(parts) > 1
    assert all(part.parts == len(parts) and len(seal(part, DIALECT)) < NATS_TAKES for part in parts)
    assert sum(len(part.homed) for part in parts) == 9000
