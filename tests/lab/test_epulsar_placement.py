"""Placement by promise: what its experiments are made of."""

import numpy as np

from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments import epulsar_placement
from nearcast.lab.experiments.epulsar_placement import Scene, drones, game_topology, permutation, players
from nearcast.lab.workloads import cities, zones


def scene(count: int = 8) -> Scene:
    rng = np.random.default_rng(4)
    topology = game_topology(cities.built_in().some(count, rng).rtt_ms)
    return Scene("built-in", count, topology, 100.0, lambda rng: players(count, rng), topology.spots(rng))


def test_placement_by_promise_breaks_few_promises_and_hashing_many() -> None:
    found = permutation(scene(), seed=1)
    pairs = {each[0] for each in found.values()}
    assert len(pairs) == 1
    assert found["hash"][1] > 0.1 * found["hash"][0]
    assert found["epulsar"][1] < 0.02 * found["epulsar"][0]
    assert found["all-pairs"][1] < 0.02 * found["all-pairs"][0]


def test_a_permutation_is_the_same_every_time() -> None:
    assert permutation(scene(), seed=2) == permutation(scene(), seed=2) != permutation(scene(), seed=3)


def test_every_avatar_is_published_once_and_heard_in_every_city_of_its_group() -> None:
    crowd = players(16, np.random.default_rng(1))
    assert crowd.topics == 1024
    assert np.bincount(crowd.topic[crowd.publishes]).tolist() == [1] * 1024
    heard = np.bincount(crowd.topic[~crowd.publishes], minlength=1024)
    assert heard.min() >= 1
    assert heard.max() <= 8
    assert crowd.node.min() >= 16  # game servers, not brokers


def test_a_swarm_has_a_topic_each_way() -> None:
    rng = np.random.default_rng(1)
    city = zones.Zones.of(zones.built_in_cells(rng), 4, rng)
    crowd = drones(city, rng)
    publishers = np.bincount(crowd.topic[crowd.publishes]).tolist()
    assert publishers == [1, 7] * 16
    assert set(crowd.node.tolist()) <= set(range(5, 9))  # proxies, behind four sites and the cloud


def test_sites_are_in_the_middle_of_their_cells() -> None:
    cells = np.concatenate((np.random.default_rng(1).normal((0, 0), 0.1, (50, 2)), np.full((50, 2), 9.0)))
    city = zones.Zones.of(cells, 2, np.random.default_rng(3))
    assert sorted(np.round(city.sites[:, 0]).tolist()) == [0.0, 9.0]
    assert len(set(city.zone_of(np.array([[0.0, 0.2], [8.0, 8.0]])).tolist())) == 2


def test_built_in_cities_are_as_far_apart_as_they_are() -> None:
    known = cities.built_in()
    rtt_ms = known.rtt_ms[known.names.index("New York"), known.names.index("Los Angeles")]
    assert 65.0 < rtt_ms < 80.0
    assert (known.rtt_ms == known.rtt_ms.T).all()


def test_both_experiments_hold_on_a_few_permutations() -> None:
    for experiment in (epulsar_placement.MMOG, epulsar_placement.UAV):
        found = experiment.run(RunSettings(mode="flow", seed=31, seeds=3))
        assert [claim.statement for claim in found.claims if not claim.holds] == []
