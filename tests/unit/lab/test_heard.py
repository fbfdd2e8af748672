"""How late messages were, in windows."""

import pytest

from nearcast.lab.heard import Heard


def test_messages_are_counted_in_the_window_in_which_they_were_sent() -> None:
    heard = Heard(("a", "b"), 0.5)
    for sent_s, late_s in ((0.1, 0.010), (0.7, 0.040), (0.6, 0.030), (0.2, 0.020)):
        heard["a"](sent_s, late_s)
    found = heard.windows("a")
    assert found.at_s.tolist() == [0.0, 0.5]
    assert found.count.tolist() == [2, 2]
    assert found.max_ms.tolist() == pytest.approx([20.0, 40.0])
    assert len(heard.windows("b").at_s) == 0


def test_one_of_twenty_may_be_later_than_the_95th_percentile() -> None:
    heard = Heard(("a",), 1.0)
    for number in range(20):
        heard["a"](0.5, 0.001 * (number + 1))
    found = heard.windows("a")
    assert found.p95_ms.tolist() == pytest.approx([19.0])
    assert found.max_ms.tolist() == pytest.approx([20.0])


def test_what_was_sent_before_the_beginning_does_not_count() -> None:
    heard = Heard(("a",), 1.0)
    heard["a"](-0.1, 9.0)
    assert len(heard.late_ms("a")) == 0
