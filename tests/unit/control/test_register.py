"""Who uses a topic at one broker: each entry is a lease."""

import math

from nearcast.control.register import Register


def names(register: Register) -> list[tuple[str, int]]:
    return list(register.entries)


def test_an_entry_lives_until_its_lease_is_out() -> None:
    register = Register()
    register.renew("c", 0, 1, 10.0)
    assert register.expire(9.9) == []
    (out,) = register.expire(10.0)
    assert (out.client, out.publisher) == ("c", 0)
    assert names(register) == []


def test_a_renewed_entry_lives_longer_and_has_its_new_epoch() -> None:
    register = Register()
    register.renew("c", 0, 1, 10.0)
    register.renew("c", 0, 2, 20.0)
    assert register.expire(15.0) == []
    assert register.below(2) == []


def test_a_clients_subscriber_and_its_publishers_are_entries_of_their_own() -> None:
    register = Register()
    register.renew("c", 0, 1, 10.0)
    register.renew("c", 7, 1, 10.0)
    register.leave("c", 7)
    assert names(register) == [("c", 0)]


def test_leaving_twice_or_without_having_come_does_nothing() -> None:
    register = Register()
    register.leave("c", 0)
    assert names(register) == []


def test_below_tells_who_does_not_know_an_epoch_yet() -> None:
    register = Register()
    register.renew("a", 0, 1, 10.0)
    register.renew("b", 0, 2, 10.0)
    assert [entry.client for entry in register.below(2)] == ["a"]


def test_the_next_expiry_is_the_earliest() -> None:
    register = Register()
    assert register.next_s() == math.inf
    register.renew("a", 0, 1, 10.0)
    register.renew("b", 0, 1, 11.0)
    register.renew("a", 0, 1, 12.0)  # so b is the first to run out
    assert register.next_s() == 11.0
    assert [entry.client for entry in register.expire(11.5)] == ["b"]
    assert register.next_s() == 12.0
