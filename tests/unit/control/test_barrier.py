"""The barrier: markers of all sources through all brokers."""

from nearcast.control.barrier import Barrier
from nearcast.wire.control import Generation, Marker

GRANTED = Generation("t", 2, "H0", 5, 3, ("H0", "H1"))


def marker(source: str, *, generation: int = 3, incarnation: int = 5, origin: str = "H0") -> Marker:
    return Marker("t", origin, incarnation, generation, source, ())


def all_but_one(last: Marker, via: str = "H1") -> Barrier:
    """Granted, with every marker seen but H1's through H1, and then `last`."""
    barrier = Barrier(0.0)
    barrier.grant(GRANTED)
    for source, through in (("H0", "H0"), ("H0", "H1"), ("H1", "H0")):
        barrier.marker(marker(source), through)
    assert not barrier.complete(("H0", "H1"))
    barrier.marker(last, via)
    return barrier


def test_it_is_complete_with_every_source_through_every_broker() -> None:
    assert all_but_one(marker("H1")).complete(("H0", "H1"))


def test_without_a_generation_no_marker_completes_it() -> None:
    barrier = Barrier(0.0)
    for source in ("H0", "H1"):
        barrier.marker(marker(source), "H0")
    assert not barrier.complete(("H0",))


def test_markers_that_came_before_the_answer_count() -> None:
    barrier = Barrier(0.0)
    for source in ("H0", "H1"):
        barrier.marker(marker(source), "H0")
    barrier.grant(GRANTED)
    assert barrier.complete(("H0",))


def test_a_later_generation_of_the_same_origin_counts() -> None:
    assert all_but_one(marker("H1", generation=4)).complete(("H0", "H1"))


def test_an_earlier_generation_does_not_count() -> None:
    assert not all_but_one(marker("H1", generation=2)).complete(("H0", "H1"))


def test_a_marker_of_another_incarnation_does_not_count() -> None:
    assert not all_but_one(marker("H1", incarnation=6, generation=9)).complete(("H0", "H1"))


def test_a_marker_of_another_origin_does_not_count_and_hides_none() -> None:
    barrier = all_but_one(marker("H1", origin="H1"))
    assert not barrier.complete(("H0", "H1"))
    barrier.marker(marker("H1"), "H1")
    barrier.marker(marker("H1", origin="H1", incarnation=9), "H1")
    assert barrier.complete(("H0", "H1"))


def test_a_marker_through_one_broker_says_nothing_of_another() -> None:
    assert not all_but_one(marker("H1"), via="H0").complete(("H0", "H1"))


def test_a_broker_that_no_source_forwards_to_is_not_waited_for() -> None:
    assert all_but_one(marker("H1")).complete(("H0", "H1", "H7"))


def test_a_later_grant_of_the_same_origin_does_not_undo_the_first() -> None:
    barrier = all_but_one(marker("H1"))
    barrier.grant(Generation("t", 2, "H0", 5, 9, ("H0", "H1")))
    assert barrier.complete(("H0", "H1"))


def test_a_grant_of_another_origin_will_do_as_well() -> None:
    barrier = all_but_one(marker("H1", generation=2))
    barrier.grant(Generation("t", 2, "H1", 8, 1, ("H0", "H1")))
    for source in ("H0", "H1"):
        for via in ("H0", "H1"):
            barrier.marker(marker(source, origin="H1", incarnation=8, generation=1), via)
    assert barrier.complete(("H0", "H1"))


def test_an_agent_that_started_anew_grants_anew() -> None:
    barrier = all_but_one(marker("H1", generation=2))
    barrier.grant(Generation("t", 2, "H0", 6, 1, ("H0",)))
    barrier.marker(marker("H0", incarnation=6, generation=1), "H0")
    assert barrier.complete(("H0",))
