import copy
import pickle
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from nearcast.domain.errors import RingError
from nearcast.domain.ring import Ring, broker_positions_plain, topic_position, topic_positions

TOPIC_COUNT = 100_000
# How fleets are named: by number, by site, by host and port, by something random-looking.
NAMINGS = ("broker-{}", "edge/site{}/a", "10.0.0.{}:4222", "{}", "b7f{}c0ffee")


@pytest.fixture(scope="module")
def positions() -> NDArray[np.uint64]:
    return topic_positions(f"city/{i % 977}/sensor.{i}" for i in range(TOPIC_COUNT))


def ring_of(count: int, naming: str = "broker-{}") -> Ring:
    return Ring(tuple(naming.format(i) for i in range(count)))


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("count", range(2, 33))
def test_one_of_n_brokers_coming_or_going_moves_at_most_1_2_of_its_part(
    positions: NDArray[np.uint64], count: int, naming: str
) -> None:
    ring = ring_of(count, naming)
    before = ring.owner_indices(positions)
    topics_per_broker = np.bincount(before, minlength=count)
    # What a broker has is what moves when it goes, and what moved when it came: first the most that any broker has ...
    assert topics_per_broker.max() / TOPIC_COUNT <= 1.2 / count
    # ... then that it is so, for the broker with the most.
    fullest = int(topics_per_broker.argmax())
    after = ring.without_broker(ring.brokers[fullest]).owner_indices(positions)
    after += after >= fullest  # back to the larger ring's indices
    assert np.array_equal(before != after, before == fullest), "a topic of a broker that stayed has moved"


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("count", [2, 3, 4, 8, 16, 32])
def test_the_fullest_broker_has_at_most_1_15_of_the_mean(
    positions: NDArray[np.uint64], count: int, naming: str
) -> None:
    topics_per_broker = np.bincount(ring_of(count, naming).owner_indices(positions), minlength=count)
    assert topics_per_broker.max() / topics_per_broker.mean() <= 1.15


def test_a_thousand_brokers_share_a_hundred_thousand_topics(positions: NDArray[np.uint64]) -> None:
    # A broker has 100 topics here, and chance alone (10 %) outweighs the ring's own unevenness (3 %).
    topics_per_broker = np.bincount(ring_of(1000).owner_indices(positions), minlength=1000)
    assert topics_per_broker.min() > 0
    assert topics_per_broker.max() / topics_per_broker.mean() <= 1.5


def test_owners_do_not_change_between_releases() -> None:
    # Clients of two releases share one fleet: another owner for a name is a break of the protocol.
    ring = Ring(("atlanta", "boston", "chicago"))
    topics = ["drone/1", "drone/2", "alerts.fire", "über.straße", "a"]
    assert [hex(topic_position(topic)) for topic in topics[:2]] == ["0x61f726fa607aca9e", "0x4b7cff4d69e9566f"]
    assert ring.owners(topics) == ["boston", "atlanta", "boston", "atlanta", "chicago"]


def test_one_topic_and_many_topics_give_the_same_owners() -> None:
    ring = ring_of(7)
    topics = [f"t{i}" for i in range(5_000)]
    assert ring.owners(topics) == [ring.owner(topic) for topic in topics]


def test_a_topic_after_the_last_point_belongs_to_the_first() -> None:
    ring = Ring(("a", "b", "c"), vnodes=2)
    points = sorted((position, name) for name in ring.brokers for position in broker_positions_plain(name, 2))
    last = np.array([points[-1][0], points[-1][0] + 1, 2**64 - 1, 0], dtype=np.uint64)
    owners = [ring.brokers[index] for index in ring.owner_indices(last)]
    assert owners == [points[-1][1], points[0][1], points[0][1], points[0][1]]


def test_a_single_broker_owns_everything() -> None:
    assert Counter(Ring(("only",)).owners([f"t{i}" for i in range(100)])) == {"only": 100}


def test_no_topics_have_no_owners() -> None:
    assert Ring(("a",)).owners([]) == []


def test_the_order_of_joining_does_not_matter() -> None:
    assert Ring(("b", "a", "c")) == Ring(("c", "b", "a"))
    assert hash(Ring(("b", "a"))) == hash(Ring(("a", "b")))


def test_a_change_makes_a_new_ring_of_the_next_version() -> None:
    ring = Ring(("a", "b"), version=4)
    assert ring.with_broker("c") == Ring(("a", "b", "c"), version=5)
    assert ring.without_broker("a") == Ring(("b",), version=5)
    assert ring == Ring(("a", "b"), version=4)


def test_a_copied_or_pickled_ring_is_equal_and_small() -> None:
    ring = ring_of(32)
    assert copy.deepcopy(ring) == ring
    pickled = pickle.dumps(ring)
    assert len(pickled) < 2_000
    assert pickle.loads(pickled).owner("t") == ring.owner("t")  # noqa: S301 - bytes made two lines above


def test_an_empty_ring_is_refused() -> None:
    with pytest.raises(RingError, match="at least one broker"):
        Ring(())


def test_the_last_broker_cannot_be_removed() -> None:
    with pytest.raises(RingError, match="'a' is the last one"):
        Ring(("a",)).without_broker("a")


def test_a_broker_cannot_be_in_the_ring_twice() -> None:
    with pytest.raises(RingError, match="'a' is in the ring twice"):
        Ring(("a", "b", "a"))
    with pytest.raises(RingError, match="'a' is already in the ring"):
        Ring(("a", "b")).with_broker("a")


def test_an_unknown_broker_cannot_be_removed() -> None:
    with pytest.raises(RingError, match=r"'x' is not in the ring \(version 3: a, b\)"):
        Ring(("a", "b"), version=3).without_broker("x")


def test_a_ring_without_points_is_refused() -> None:
    with pytest.raises(RingError, match="vnodes is 0"):
        Ring(("a",), vnodes=0)
