"""The delay model of RELOC, by hand on its Figure 5, and against its equations publication by publication."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.domain.area import Area
from nearcast.domain.errors import SnapshotError
from nearcast.domain.places import Spots
from nearcast.predict.homed import Pattern, delay_of, delay_plain, load_of, storage_of, theta_of


def area_of(
    clients: dict[str, tuple[float, set[int], set[int]]],
    servers: list[float],
    spool: list[float],
    *,
    storage: float = np.inf,
    compute: float = np.inf,
    cloud_s: float = 0.005,
) -> Area:
    """On a line: of each client the place, what it publishes and what it hears."""
    names = sorted(clients)
    entries = [
        (number, topic, topic in clients[name][1], topic in clients[name][2])
        for number, name in enumerate(names)
        for topic in sorted(clients[name][1] | clients[name][2])
    ]
    owner, topic, publishes, subscribes = np.array(entries, dtype=np.int64).reshape(-1, 4).T
    return Area(
        servers=Spots(np.array(servers)[:, None], np.zeros(len(servers))),
        storage=np.full(len(servers), storage),
        compute=np.full(len(servers), compute),
        cloud_s=cloud_s,
        clients=tuple(names),
        at=Spots(np.array([clients[name][0] for name in names]).reshape(-1, 1), np.zeros(len(names))),
        home=np.full(len(names), -1),
        first=np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(names))))),
        topic=topic,
        publishes=publishes.astype(np.bool_),
        subscribes=subscribes.astype(np.bool_),
        spool=np.array(spool),
    )


def figure_5() -> tuple[Area, np.ndarray]:
    """c1 and c2 publish t1, c3 publishes t1 and t2, c4 hears both; c1 and c2 are at s1, which is 1 ms from s2."""
    area = area_of(
        {
            "c1": (0.0, {0}, set()),
            "c2": (0.0002, {0}, set()),
            "c3": (0.001, {0, 1}, set()),
            "c4": (0.0013, set(), {0, 1}),
        },
        [0.0, 0.001],
        [8.0, 6.0],
        storage=10.0,
        compute=20.0,
    )
    return area, np.array([0, 0, 1, 1])


def test_the_storage_of_figure_5_is_8_and_14() -> None:
    area, home = figure_5()
    assert storage_of(area, home).tolist() == [8.0, 14.0]


def test_the_load_of_figure_5_is_16_and_14() -> None:
    area, home = figure_5()
    assert load_of(area, home).tolist() == [16.0, 14.0]


def test_the_second_server_of_figure_5_keeps_10_of_14() -> None:
    area, home = figure_5()
    theta = theta_of(storage_of(area, home), load_of(area, home), area.storage, area.compute)
    assert theta.tolist() == [1.0, 10 / 14]


def test_the_delays_of_figure_5_are_those_of_equation_6_by_hand() -> None:
    area, home = figure_5()
    found = delay_of(area, home)
    cloud_s = 2 * 0.005 * (4 / 14)
    assert found.delay_s.tolist() == pytest.approx(
        [0.001 + 0.0003, 0.0002 + 0.001 + 0.0003, cloud_s + 0.0003, cloud_s + 0.0003]  # c1, c2, and c3 on t1 and t2
    )
    assert found.y1_s == pytest.approx((0.0002 + 4 * 0.0003) / 4)
    assert found.y2_s == pytest.approx((2 * 0.001 + 2 * cloud_s) / 4)
    assert found.y_s == found.y1_s + found.y2_s
    assert found.delegated == pytest.approx(4 / 22)


def test_a_publisher_does_not_hear_itself_and_one_whom_nobody_hears_does_not_count() -> None:
    area = area_of({"a": (0.0, {0}, {0}), "b": (0.01, {0}, {0}), "c": (0.5, {1}, {1})}, [0.0, 0.01], [2.0, 2.0])
    found = delay_of(area, np.array([0, 1, 0]))
    assert found.delay_s.tolist() == [0.01, 0.01]


def test_a_client_without_a_home_is_named() -> None:
    area, home = figure_5()
    home[2] = -1
    with pytest.raises(SnapshotError, match="client 'c3' has no home"):
        delay_of(area, home)


def test_an_area_without_clients_has_no_delay() -> None:
    area = area_of({}, [0.0], [])
    found = delay_of(area, np.zeros(0, dtype=np.int64))
    assert (found.y_s, found.storage.tolist(), found.theta.tolist()) == (0.0, [0.0], [1.0])


_some_topics = st.sets(st.integers(0, 3), max_size=3)


@given(
    st.lists(st.tuples(st.floats(0.0, 0.02), _some_topics, _some_topics), min_size=1, max_size=7),
    st.lists(st.integers(0, 2), min_size=7, max_size=7),
    st.sampled_from([3.0, 12.0, np.inf]),
    st.sampled_from([5.0, np.inf]),
)
def test_the_vectorised_model_is_that_of_the_paper_written_out(
    clients: list[tuple[float, set[int], set[int]]], homes: list[int], storage: float, compute: float
) -> None:
    named = {f"c{number}": each for number, each in enumerate(clients)}
    area = area_of(named, [0.0, 0.004, 0.011], [2.0, 3.0, 5.0, 7.0], storage=storage, compute=compute)
    home = np.array(homes[: len(clients)])
    found = delay_of(area, home)
    assert (found.y1_s, found.y2_s) == pytest.approx(delay_plain(area, home))
    pattern = Pattern.of(area)
    weights = pattern.weights(len(area.clients), len(area.spool))
    assert float(weights @ found.home_s) == pytest.approx(found.y1_s * len(pattern.client))
