"""Messages about subscriptions: what is refused, with which words."""

import math

import pytest

from nearcast.wire.channels import MOST_AT_HOME, MOST_NEAR, MOST_REHOMED, AtHome, Follow, HomedClient, Rehome, Resident


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keys": (("k1", -1.0),)}, "'b1': -1.0 bytes a second are published for 'k1'"),
        ({"keys": (("k1", math.nan),)}, "nan bytes a second"),
        ({"keys": (("k1", 1.0),), "residents": (Resident("ann", (1,)),)}, "'ann' follows keys that are not named here"),
        ({"keys": (("k1", 1.0),), "residents": (Resident("ann", (-1,)),)}, "'ann' follows keys that are not named"),
        ({"residents": (Resident("ann", (), (("b2", math.inf),)),)}, "'ann': a round trip of inf s to 'b2'"),
        ({"parts": -1}, "a round in -1 parts"),
        ({"topics": ("t",), "homed": (HomedClient("ann", (), (1,)),)}, "'ann' uses topics that are not named here"),
        ({"left": ("ann",) * (MOST_AT_HOME + 1)}, f"at most {MOST_AT_HOME}"),
    ],
)
def test_what_nobody_can_have_at_home_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AtHome("b1", 1, **given)  # type: ignore[arg-type]  # of several types


def test_a_client_names_a_few_brokers_that_are_near() -> None:
    with pytest.raises(ValueError, match="5 brokers are near; at most 4 are named"):
        Follow("ann", 0.0, (), (("b1", 0.1),) * (MOST_NEAR + 1))


def test_not_everybody_moves_by_one_message() -> None:
    with pytest.raises(ValueError, match=f"at most {MOST_REHOMED}"):
        Rehome((("ann", "b1"),) * (MOST_REHOMED + 1))


def test_a_client_that_is_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'ann' is at .*, where nobody can be"):
        HomedClient("ann", (), (), "", (math.nan, 0.0))
