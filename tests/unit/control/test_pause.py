"""How long a subscriber could not receive."""

from nearcast.control.pause import Pause


def test_who_is_attached_all_the_while_has_no_pause() -> None:
    pause = Pause()
    for now in (0.0, 1.0, 5.0):
        pause.note(now, receiving=True)
    assert pause.so_far_s(9.0) == 0.0


def test_a_pause_lasts_from_the_last_broker_left_to_the_next_one_reached() -> None:
    pause = Pause()
    for now, receiving in ((0.0, True), (1.0, False), (1.5, False), (3.0, True), (4.0, False), (4.5, True)):
        pause.note(now, receiving=receiving)
    assert pause.longest_s == 2.0


def test_a_pause_that_is_not_over_counts_as_long_as_it_is_by_now() -> None:
    pause = Pause()
    pause.note(1.0, receiving=False)
    assert (pause.so_far_s(1.0), pause.so_far_s(3.0)) == (0.0, 2.0)


def test_taken_it_begins_anew() -> None:
    pause = Pause()
    pause.note(1.0, receiving=False)
    pause.note(3.0, receiving=True)
    assert (pause.take_s(4.0), pause.take_s(5.0)) == (2.0, 0.0)


def test_when_one_is_over_it_says_how_long_it_took() -> None:
    pause = Pause()
    said = ((0.0, True), (1.0, False), (1.5, False), (3.0, True), (4.0, True))
    assert [pause.note(now, receiving=receiving) for now, receiving in said] == [0.0, 0.0, 0.0, 2.0, 0.0]
