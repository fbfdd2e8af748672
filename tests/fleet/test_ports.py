"""Free ports."""

from nearcast.fleet.ports import free_port


def test_ports_that_are_not_used_yet_are_not_given_twice() -> None:
    assert len({free_port() for _ in range(2_000)}) == 2_000
