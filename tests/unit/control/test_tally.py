"""What a client counts, and what it then says to the agent of each broker."""

import pytest

from nearcast.control.tally import Tally
from nearcast.domain.sketch import bucket_of, flat
from nearcast.wire.control import seal
from nearcast.wire.dialect import Dialect
from nearcast.wire.envelope import HEADER_BYTES
from nearcast.wire.loads import MOST_COUNTED, Counts, TopicCount, Trouble


def begun(now: float = 0.0) -> Tally:
    tally = Tally("alice")
    tally.begin(now)
    return tally


def count(tally: Tally, *, sent: int = 0, received: int = 0, brokers: tuple[str, ...] = ("b1",)) -> None:
    out = tally.sent(brokers, "t")
    out.messages += sent
    out.size_bytes += 100 * sent
    back = tally.received(brokers[0], "t")
    back.messages += received
    back.size_bytes += 100 * received


def test_each_agent_is_told_of_all_topics_at_its_broker() -> None:
    tally = begun()
    count(tally, sent=3, received=2)
    tally.received("b1", "u").messages += 1
    tally.received("b2", "t").messages += 5
    assert tally.tell(2.0) == [
        ("b1", Counts("alice", 2.0, (TopicCount("t", 3, 300 + 3 * HEADER_BYTES, 2, 200), TopicCount("u", 0, 0, 1, 0)))),
        ("b2", Counts("alice", 2.0, (TopicCount("t", 0, 0, 5, 0),))),
    ]


def test_what_goes_to_several_brokers_is_told_to_each() -> None:
    tally = begun()
    count(tally, sent=4, brokers=("b1", "b2"))
    told = TopicCount("t", 4, 400 + 4 * HEADER_BYTES)
    assert tally.tell(1.0) == [(broker, Counts("alice", 1.0, (told,))) for broker in ("b1", "b2")]


def test_who_does_nothing_says_nothing_and_the_time_begins_anew() -> None:
    tally = begun()
    count(tally, sent=1)
    assert len(tally.tell(1.0)) == 1
    assert tally.tell(2.0) == []
    count(tally, received=1)
    assert tally.tell(5.0) == [("b1", Counts("alice", 3.0, (TopicCount("t", 0, 0, 1, 100),)))]


def test_what_was_left_is_told_once_more_and_forgotten() -> None:
    tally = begun()
    left = tally.received("b1", "t")
    left.messages, left.left = 2, True
    assert len(tally.tell(1.0)) == 1
    left.messages = 1
    assert tally.tell(2.0) == []
    assert tally.received("b1", "t") is not left


def test_who_comes_back_before_that_goes_on_counting() -> None:
    tally = begun()
    tally.received("b1", "t").left = True
    tally.received("b1", "t").messages += 1
    assert len(tally.tell(1.0)) == 1
    tally.received("b1", "t").messages += 1
    assert len(tally.tell(2.0)) == 1


def test_the_last_word_of_a_short_life_is_no_burst() -> None:
    tally = begun()
    count(tally, sent=1)
    (_, said), *_ = tally.tell(0.01, least_s=1.0)
    assert said.seconds == 1.0


def test_too_many_topics_for_one_message_go_in_several_that_every_server_takes() -> None:
    tally = begun()
    names = [f"{number:04d}".ljust(200, "x") for number in range(2 * MOST_COUNTED + 1)]
    for name in names:
        tally.received("b1", name).messages += 2**36
    told = tally.tell(3600.0)
    assert [len(counts.topics) for _, counts in told] == [MOST_COUNTED, MOST_COUNTED, 1]
    assert [each.topic for _, counts in told for each in counts.topics] == names
    assert max(len(seal(counts, Dialect(b"fleet"))) for _, counts in told) < 512 * 1024


def test_without_anybody_to_tell_nothing_is_kept() -> None:
    tally = Tally("alice")
    count(tally, sent=1, received=1)
    assert tally.tell(1.0) == []
    assert not tally._sent
    assert not tally._received


def test_what_subscriptions_suffered_is_told_once_to_the_agent_where_they_are() -> None:
    tally = begun()
    tally.suffered("b2").gap(3)
    tally.suffered("b2").gap(1)
    tally.suffered("b2").paused(0.0)
    tally.suffered("b2").paused(0.5)
    tally.suffered("b1").discontinuities += 1
    told = Trouble(2, 4, 0, flat({0: 1, bucket_of(0.5): 1}))
    assert tally.tell(1.0) == [
        ("b2", Counts("alice", 1.0, (), told)),
        ("b1", Counts("alice", 1.0, (), Trouble(0, 0, 1))),
    ]
    assert tally.tell(2.0) == []


def test_what_was_suffered_at_a_broker_that_is_away_is_told_elsewhere_or_when_it_is_back() -> None:
    tally = begun()
    tally.suffered("b1").gap(1)
    assert tally.tell(1.0, up=lambda _broker: False) == []
    tally.suffered("b1").gap(1)
    count(tally, received=1, brokers=("b2",))
    told = tally.tell(2.0, up=lambda broker: broker == "b2")
    assert [(broker, each.trouble) for broker, each in told] == [("b2", None), ("b2", Trouble(2, 2))]


@pytest.mark.parametrize("trouble", [Trouble(gaps=-1), Trouble(missed=1 << 60), Trouble(pauses=(1, 1 << 60))])
def test_trouble_that_cannot_be_is_no_message(trouble: Trouble) -> None:
    with pytest.raises(ValueError, match="no client"):
        Counts("alice", 1.0, (), trouble)
