"""Leases of followers: the longer, the more there are; a renewal is one number."""

import pytest

from nearcast.control.follower_leases import FollowerLeases, Leased
from nearcast.control.timing import Timing

TIMING = Timing()  # a lease of 20 s, renewed every 5 s


class Followers:
    """Some followers and their leases, as an agent has them."""

    def __init__(self, most_hz: float = 2_000.0) -> None:
        self.leases = FollowerLeases(TIMING, most_hz)
        self.there: dict[tuple[str, str], Leased] = {}

    def come(self, client: str, now: float) -> None:
        self.there["k", client] = Leased()
        self.leases.begin("k", client, self.there["k", client], now)

    def renew(self, client: str, now: float) -> None:
        self.leases.renew(self.there["k", client], now)

    def go(self, client: str) -> None:
        del self.there["k", client]
        self.leases.end()

    def ended(self, now: float) -> list[str]:
        out = []
        for key, client in self.leases.ended(now, lambda key, client: self.there.get((key, client))):
            assert key == "k"
            self.go(client)
            out.append(client)
        return out


def test_few_followers_have_the_shortest_lease() -> None:
    followers = Followers()
    followers.come("ann", 0.0)
    assert followers.leases.length_s == TIMING.absent_s


@pytest.mark.parametrize("count", [100, 1_000, 5_000])
def test_many_followers_renew_at_the_rate_that_an_agent_bears(count: int) -> None:
    followers = Followers(most_hz=10.0)
    for number in range(count):
        followers.come(f"c{number}", 0.0)
    follow_s = followers.leases.length_s * TIMING.follow_s / TIMING.absent_s
    assert count / follow_s == pytest.approx(10.0)


def test_who_is_silent_for_its_lease_is_given_up_in_turn() -> None:
    followers = Followers()
    for at_s, client in enumerate(("ann", "bob", "cem")):
        followers.come(client, float(at_s))
    assert followers.leases.wake_s() == 20.0
    assert followers.ended(19.9) == []
    assert followers.ended(21.0) == ["ann", "bob"]
    assert (followers.leases.count, followers.leases.wake_s()) == (1, 22.0)


def test_who_renews_stays_and_is_looked_at_once_in_a_lease() -> None:
    followers = Followers()
    followers.come("ann", 0.0)
    for second in range(5, 20, 5):
        followers.renew("ann", float(second))
    assert followers.ended(20.0) == []
    assert followers.leases.wake_s() == 35.0
    assert followers.ended(35.0) == ["ann"]


def test_who_left_and_came_back_has_its_new_lease() -> None:
    followers = Followers()
    followers.come("ann", 0.0)
    followers.go("ann")
    followers.come("ann", 10.0)
    assert followers.ended(20.0) == []
    assert followers.ended(30.0) == ["ann"]
    assert followers.leases.count == 0
