"""What a leader keeps of who is at home where."""

from nearcast.control.followers import RATE_WINDOW_S
from nearcast.coordinator.residents import FRESH_S, Residents
from nearcast.domain.homes import Homes
from nearcast.wire.channels import AtHome, Resident

BROKERS = ("b1", "b2")


def at_home(
    broker: str, number: int = 1, *, parts: int = 1, left: tuple[str, ...] = (), rate: float = 10.0, **keys: str
) -> AtHome:
    """Clients with their keys, as `ann="k1 k2"`."""
    names = sorted({key for each in keys.values() for key in each.split()})
    residents = tuple(
        Resident(client, tuple(names.index(key) for key in each.split())) for client, each in keys.items()
    )
    return AtHome(broker, number, parts, tuple((name, rate) for name in names), residents, left)


def facts(homes: Homes | None) -> dict[str, tuple[str, list[str]]]:
    assert homes is not None
    return {
        name: (BROKERS[homes.home[at]], [homes.keys[key] for key in homes.key[homes.first[at] : homes.first[at + 1]]])
        for at, name in enumerate(homes.subscribers)
    }


def test_homes_are_what_agents_said() -> None:
    residents = Residents(40.0)
    residents.heard(at_home("b1", ann="k1 k2", bob="k1"), 0.0)
    residents.heard(at_home("b2", cid="k2"), 0.0)
    homes = residents.homes(BROKERS)
    assert facts(homes) == {"ann": ("b1", ["k1", "k2"]), "bob": ("b1", ["k1"]), "cid": ("b2", ["k2"])}
    assert homes is not None
    assert homes.loads(2).tolist() == [3 * 10.0 + 2 * 10.0, 2 * 10.0]
    assert residents.reported() == set(BROKERS)
    assert residents.homes(("b1",)) is not None
    assert residents.homes(("b9",)) is None, "nobody is at home there"


def test_who_is_there_when_an_agent_is_first_heard_is_not_new_and_who_comes_then_is() -> None:
    residents = Residents(40.0)
    assert residents.heard(at_home("b1", ann="k1"), 0.0) == []
    assert residents.heard(at_home("b1", 1, parts=0, bob="k1"), 1.0) == ["bob"]
    assert residents.heard(at_home("b1", 2, ann="k1", bob="k1", cid="k1"), 5.0) == ["cid"]
    residents.heard(at_home("b2"), 5.0)
    assert residents.heard(at_home("b2", parts=0, bob="k1"), 6.0) == [], "it was elsewhere"


def test_who_comes_before_the_first_round_is_new_when_that_is_heard() -> None:
    residents = Residents(40.0)
    assert residents.heard(at_home("b1", parts=0, ann="k1"), 0.0) == []
    assert not residents.at("ann"), "who else is there is not known yet"
    assert residents.heard(at_home("b1", ann="k1", bob="k1"), 5.0) == ["ann"]


def test_one_who_is_back_soon_is_not_new() -> None:
    residents = Residents(5.0)
    residents.heard(at_home("b1", ann="k1", bob="k1"), 0.0)
    residents.heard(at_home("b1", parts=0, left=("ann", "bob")), 1.0)
    residents.expire(5.0)
    assert residents.heard(at_home("b1", parts=0, ann="k1"), 5.0) == []
    residents.expire(6.0)
    assert residents.heard(at_home("b1", parts=0, bob="k1"), 6.0) == ["bob"]


def test_a_round_counts_when_all_of_it_has_come() -> None:
    residents = Residents(40.0)
    residents.heard(at_home("b1", 1, ann="k1"), 0.0)
    residents.heard(at_home("b1", 2, parts=2, bob="k1"), 5.0)
    assert list(residents.at("ann")) == ["b1"]
    assert list(residents.at("bob")) == []
    residents.heard(at_home("b1", 2, parts=2, bob="k2"), 5.0)
    assert list(residents.at("ann")) == []
    assert facts(residents.homes(BROKERS)) == {"bob": ("b1", ["k1", "k2"])}


def test_a_client_at_two_brokers_has_its_home_where_most_of_its_keys_are_or_where_it_came_last() -> None:
    residents = Residents(40.0)
    residents.heard(at_home("b2", ann="k1 k2", bob="k1"), 0.0)
    residents.heard(at_home("b1", ann="k2", bob="k1"), 0.0)
    assert facts(residents.homes(BROKERS)) == {"ann": ("b2", ["k1", "k2"]), "bob": ("b1", ["k1"])}
    assert sorted(residents.split()) == ["ann", "bob"]


def test_the_largest_rate_of_the_last_minute_counts() -> None:
    residents = Residents(40.0)
    residents.heard(at_home("b1", 1, ann="k1", rate=100.0), 0.0)
    residents.heard(at_home("b1", 2), 5.0)
    residents.heard(at_home("b2", 1, ann="k1", rate=3.0), 5.0)
    homes = residents.homes(BROKERS)
    assert homes is not None
    assert homes.rate.tolist() == [100.0], "b2 has only just begun to publish it"
    residents.heard(at_home("b2", 2, ann="k1", rate=4.0), RATE_WINDOW_S)
    homes = residents.homes(BROKERS)
    assert homes is not None
    assert homes.rate.tolist() == [4.0]


def test_a_rate_that_falls_is_believed_after_a_minute_and_is_never_nothing_meanwhile() -> None:
    residents, seen = Residents(40.0), list[float]()
    for number in range(20):
        now = 5.0 * number
        residents.expire(now)
        homes = residents.homes(BROKERS)
        seen += [] if homes is None else homes.rate.tolist()
        residents.heard(at_home("b1", number, ann="k1", rate=90.0 if number else 100.0), now)
    assert set(seen) == {100.0, 90.0}
    assert seen[-1] == 90.0


def test_what_is_old_or_of_a_lost_agent_does_not_count() -> None:
    residents = Residents(40.0)
    residents.heard(at_home("b1", ann="k1"), 0.0)
    residents.heard(at_home("b2", bob="k1"), 5.0)
    residents.expire(FRESH_S)
    assert residents.reported() == {"b2"}
    assert facts(residents.homes(BROKERS)) == {"bob": ("b2", ["k1"])}
    residents.forget("b2", 6.0)
    assert residents.homes(BROKERS) is None
    assert len(residents) == 0
