"""Network coordinates on a plane: distances are what counts."""

import numpy as np

from nearcast.domain.places import Spots
from nearcast.web.projection import Projection


def apart(laid: np.ndarray[tuple[int, int], np.dtype[np.float64]], one: int, other: int) -> float:
    return float(np.linalg.norm(laid[one] - laid[other]))


def spots(rows: list[tuple[float, ...]], heights: list[float]) -> Spots:
    return Spots(np.array(rows, dtype=np.float64), np.array(heights))


def test_brokers_that_are_equally_far_by_their_heights_alone_lie_in_a_triangle() -> None:
    at = spots([(0.0,) * 8] * 3, [0.005] * 3)
    _, laid = Projection().fit(("a", "b", "c"), at)
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert np.isclose(apart(laid, one, other), 0.010)


def test_points_of_a_plane_in_many_dimensions_keep_their_distances() -> None:
    rng = np.random.default_rng(3)
    flat = rng.normal(size=(12, 2)) * 0.02
    turned = flat @ np.linalg.qr(rng.normal(size=(8, 8)))[0][:2]
    at = Spots(turned, np.zeros(12))
    plane, laid = Projection().fit(tuple("abcdefghijkl"), at)
    assert np.allclose(np.linalg.norm(laid[0] - laid, axis=1), np.linalg.norm(flat[0] - flat, axis=1))
    assert np.allclose(plane.lay(at), laid)


def test_the_map_does_not_turn_or_flip_when_coordinates_move_a_little() -> None:
    rng = np.random.default_rng(7)
    vec = rng.normal(size=(5, 4)) * 0.02
    projection, names = Projection(), tuple("abcde")
    _, before = projection.fit(names, Spots(vec, np.full(5, 0.001)))
    for _ in range(20):
        vec = vec + rng.normal(size=vec.shape) * 0.0002
        _, now = projection.fit(names, Spots(vec, np.full(5, 0.001)))
        assert np.abs(now - before).max() < 0.003
        before = now


def test_one_broker_none_or_one_that_is_nowhere_is_no_trouble() -> None:
    projection = Projection()
    nowhere = Spots(np.full((2, 3), np.nan), np.full(2, np.nan))
    plane, laid = projection.fit(("a", "b"), nowhere)
    assert np.isnan(laid).all()
    assert plane.lay(nowhere).shape == (2, 2)
    _, laid = projection.fit(("a", "b"), Spots(np.array([[0.0] * 3, [np.nan] * 3]), np.array([0.001, np.nan])))
    assert np.isfinite(laid[0]).all()
    assert np.isnan(laid[1]).all()
