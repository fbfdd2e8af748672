"""Which topics are delegated: the documented order, until the rest fits, and what that does to the delay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.predict.delegation import delay_by_topics, delegated_of
from nearcast.predict.homed import delay_of, load_of, storage_of
from tests.unit.predict.test_homed import area_of, figure_5


def test_of_figure_5_the_second_server_delegates_one_of_its_two_topics() -> None:
    """Both have one publisher there; t1 has the larger spool, and without it the rest (6) fits 10."""
    area, home = figure_5()
    found = delegated_of(area, home)
    assert (found.server.tolist(), found.topic.tolist()) == ([1], [0])
    assert (found.publications.tolist(), found.left.tolist()) == ([2.0, 2.0], [0.0, 1.0])
    assert found.share == 0.25  # where the model has 1 - theta = 4/14 of one server
    assert 1.0 - delay_of(area, home).theta[1] == pytest.approx(4 / 14)


def test_what_few_publish_and_much_is_stored_for_goes_first() -> None:
    """20 for two publishers free 10 each; 12 for one free 12."""
    area = area_of({"a": (0.0, {0}, set()), "b": (0.0, {0}, set()), "c": (0.0, {1}, set())}, [0.0], [20.0, 12.0])
    home = np.zeros(3, dtype=np.int64)
    for storage, topics in ((32.0, []), (31.0, [1]), (20.0, [1]), (19.0, [0, 1])):
        area.storage[:] = storage
        assert delegated_of(area, home).topic.tolist() == topics


def test_a_delegated_message_goes_to_the_cloud_and_back_and_others_as_before() -> None:
    clients = {"p": (0.0, {0, 1}, set()), "s": (0.001, set(), {0, 1})}
    area = area_of(clients, [0.0, 0.001], [5.0, 3.0], storage=4.0, cloud_s=0.005)
    found, whole = delay_by_topics(area, np.array([0, 1]))
    assert whole.topic.tolist() == [0]
    assert found.delay_s.tolist() == pytest.approx([0.010, 0.001])


def test_with_room_for_all_nothing_is_delegated_and_the_delay_is_the_models() -> None:
    area, home = figure_5()
    area.storage[:] = np.inf
    area.compute[:] = np.inf
    found, whole = delay_by_topics(area, home)
    assert (whole.share, len(whole.topic)) == (0.0, 0)
    assert found.y_s == pytest.approx(delay_of(area, home).y_s)


@given(st.data())
def test_the_rest_fits_and_with_one_topic_more_it_would_not(data: st.DataObject) -> None:
    topics = data.draw(st.integers(1, 6))
    spool = data.draw(st.lists(st.integers(0, 20), min_size=topics, max_size=topics))
    names = st.sets(st.integers(0, topics - 1))
    clients = {f"c{at}": (0.0, data.draw(names), {0}) for at in range(data.draw(st.integers(1, 6)))}
    storage, compute = (float(data.draw(st.integers(1, 60))) for _ in "AB")
    area = area_of(clients, [0.0, 1.0], [float(each) for each in spool], storage=storage, compute=compute)
    home = np.array([data.draw(st.integers(0, 1)) for _ in clients])
    found = delegated_of(area, home)
    members = list(zip(area.owner.tolist(), area.topic.tolist(), area.publishes.tolist(), strict=True))
    gone = set(zip(found.server.tolist(), found.topic.tolist(), strict=True))
    for server in (0, 1):
        publishers: dict[int, int] = {}
        for who, topic, publishes in members:
            if publishes and home[who] == server:
                publishers[topic] = publishers.get(topic, 0) + 1
        order = sorted(publishers, key=lambda each: (-spool[each] / publishers[each], -spool[each], each))
        left = [each for each in order if spool[each]]
        while sum(spool[t] for t in left) > storage or sum(spool[t] * publishers[t] for t in left) > compute:
            left.pop(0)
        assert {t for t in order if (server, t) in gone} == {t for t in order if spool[t]} - set(left)
    if not gone:
        assert (storage_of(area, home) <= storage).all()
        assert (load_of(area, home) <= compute).all()
