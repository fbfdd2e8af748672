"""Many nodes at once: the same as one by one."""

import numpy as np
import pytest

from nearcast.coords.engine import Engine
from nearcast.coords.fit import distances_s, fitted
from nearcast.coords.vivaldi import Vivaldi, updated

NODES = 12


def test_a_round_gives_every_node_what_vivaldi_gives_it() -> None:
    rng = np.random.default_rng(5)
    engine = Engine(NODES, rng)
    engine.vec[:] = rng.normal(scale=0.05, size=engine.vec.shape)
    states = [Vivaldi(engine.coordinate(node)) for node in range(NODES)]
    for _ in range(60):
        peer = (np.arange(NODES) + rng.integers(1, NODES, NODES)) % NODES
        # Everybody a peer only once: the engine has no latency filter.
        states = [Vivaldi(state.coordinate, beyond=state.beyond, at=state.at) for state in states]
        rtt_s = rng.uniform(0.005, 0.3, NODES)
        before = [state.coordinate for state in states]
        states = [
            updated(state, "peer", before[peer[node]], float(rtt_s[node]), lambda: 0.5)
            for node, state in enumerate(states)
        ]
        engine.step(peer, rtt_s)
    for node, state in enumerate(states):
        mine, theirs = engine.coordinate(node), state.coordinate
        assert mine.vec == pytest.approx(theirs.vec, abs=1e-9)
        assert (mine.height, mine.adjustment) == pytest.approx((theirs.height, theirs.adjustment), abs=1e-9)
        assert mine.error == pytest.approx(theirs.error, abs=1e-9)


def test_who_measures_nothing_in_a_round_stays_as_it_is() -> None:
    engine = Engine(3, np.random.default_rng(1))
    engine.step(np.array([1, 2, 0]), np.array([0.05, np.nan, 0.05]))
    assert engine.coordinate(1) == Vivaldi().coordinate
    assert any(engine.coordinate(0).vec)


def test_nodes_on_a_plane_find_it() -> None:
    rng = np.random.default_rng(2)
    at = rng.uniform(0.0, 0.1, (40, 2))
    rtt_s = np.linalg.norm(at[:, None] - at[None], axis=2) + 0.002
    engine = Engine(40, rng)
    node = np.arange(40)
    for _ in range(600):
        peer = (node + rng.integers(1, 40, 40)) % 40
        engine.step(peer, rtt_s[node, peer])
    one, other = np.triu_indices(40, 1)
    error = np.abs(engine.distances_s(one, other) - rtt_s[one, other]) / rtt_s[one, other]
    assert np.median(error) < 0.05


def test_a_fit_of_some_pairs_predicts_the_others() -> None:
    rng = np.random.default_rng(3)
    at, height = rng.uniform(0.0, 0.1, (60, 3)), rng.uniform(0.001, 0.02, 60)
    one, other = np.triu_indices(60, 1)
    rtt_s = distances_s(at, height, one, other)
    seen = rng.random(len(one)) < 0.4
    begun = rng.normal(scale=0.01, size=(60, 8)), np.full(60, 0.001)
    vec, found = fitted(*begun, one[seen], other[seen], rtt_s[seen])
    error = np.abs(distances_s(vec, found, one, other) - rtt_s)[~seen] / rtt_s[~seen]
    assert np.median(error) < 0.02
    assert np.median(np.abs(distances_s(*begun, one, other) - rtt_s)[~seen] / rtt_s[~seen]) > 0.3


def test_sites_that_are_all_equally_far_apart_are_so_on_the_map() -> None:
    """Eight dimensions hold nine of them."""
    rng = np.random.default_rng(4)
    one, other = np.triu_indices(17, 1)
    rtt_s = np.full(len(one), 0.03)
    rtt_s[other == 16] = 0.08
    vec, height = fitted(rng.normal(scale=0.01, size=(17, 8)), np.full(17, 0.0001), one, other, rtt_s)
    assert distances_s(vec, height, one, other) == pytest.approx(rtt_s, abs=0.001)


def test_what_heights_explain_is_not_put_into_the_space() -> None:
    """A star, measured in part and a little wrong: with room to fit that, pairs that nobody measured were 40 ms off."""
    rng = np.random.default_rng(6)
    one, other = np.triu_indices(40, 1)
    rtt_s = 0.1 + rng.exponential(0.002, len(one))
    seen = rng.random(len(one)) < 0.6
    begun = rng.normal(scale=0.02, size=(40, 8)), np.full(40, 0.001)
    vec, height = fitted(*begun, one[seen], other[seen], rtt_s[seen])
    assert np.max(np.linalg.norm(vec, axis=1)) < 0.01
    assert np.percentile(np.abs(distances_s(vec, height, one, other) - rtt_s)[~seen], 95) < 0.006


def test_who_is_measured_by_nobody_stays_where_it_was() -> None:
    vec, height = np.array([[0.0, 0.0], [0.1, 0.0], [0.3, 0.3]]), np.full(3, 0.001)
    moved, above = fitted(vec, height, np.array([0]), np.array([1]), np.array([0.05]), rounds=50)
    assert moved[2].tolist() == [0.3, 0.3]
    assert above[2] == 0.001
