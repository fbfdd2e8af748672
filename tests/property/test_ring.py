from hypothesis import assume, given
from hypothesis import strategies as st

from nearcast.domain.ring import Ring, broker_positions_plain, topic_position

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
rings = st.builds(
    Ring,
    st.lists(names, min_size=1, max_size=8, unique=True).map(tuple),
    version=st.integers(0, 1000),
    vnodes=st.sampled_from([1, 2, 7, 64]),
)
topics = st.lists(names, max_size=30)


def owner_by_definition(ring: Ring, topic: str) -> str:
    """The broker of the nearest point at or after the topic, by looking at every point there is."""
    start = topic_position(topic)
    distances = (
        ((position - start) % 2**64, name)
        for name in ring.brokers
        for position in broker_positions_plain(name, ring.vnodes)
    )
    return min(distances)[1]


@given(rings, topics)
def test_owners_are_those_of_the_definition(ring: Ring, topics: list[str]) -> None:
    expected = [owner_by_definition(ring, topic) for topic in topics]
    assert ring.owners(topics) == expected
    assert [ring.owner(topic) for topic in topics] == expected


@given(rings, names, topics)
def test_a_new_broker_takes_topics_and_no_others_change_hands(ring: Ring, name: str, topics: list[str]) -> None:
    assume(name not in ring.brokers)
    after = ring.with_broker(name)
    assert after.version == ring.version + 1
    for old, new in zip(ring.owners(topics), after.owners(topics), strict=True):
        assert new in (old, name)


@given(rings, names, topics)
def test_removing_what_was_added_restores_every_owner(ring: Ring, name: str, topics: list[str]) -> None:
    assume(name not in ring.brokers)
    there_and_back = ring.with_broker(name).without_broker(name)
    assert there_and_back.owners(topics) == ring.owners(topics)
    assert there_and_back.version == ring.version + 2
