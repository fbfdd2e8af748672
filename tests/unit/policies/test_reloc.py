"""RELOC's three steps on areas small enough to be followed by hand, and what its docstring decides."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from nearcast.domain.area import NOWHERE, Area
from nearcast.domain.errors import ConfigError
from nearcast.lab.workloads.field import Field, drawn_area, snapshot_of
from nearcast.policies import area_homes
from nearcast.policies.area_homes import by_proof, by_reloc, by_search, nearest, one_topic_one_server, rehomed
from nearcast.policies.registry import POLICIES
from nearcast.policies.relations import factors_of, relations_of, strongest
from nearcast.policies.reloc import allocated, best_allocated, chosen_clusters, locality
from nearcast.policies.reloc_exact import exact
from nearcast.policies.reloc_search import searched
from nearcast.policies.settings import Allocation, Settings
from nearcast.policies.spools import Spools
from nearcast.policies.ways import Ways
from nearcast.predict.homed import delay_of, load_of, storage_of
from tests.unit.predict.test_homed import area_of

Clients = dict[str, tuple[float, set[int], set[int]]]
LINE = [0.0, 0.001, 0.010, 0.011]  # two pairs of servers, far apart


def on_a_line(clients: Clients, storage: float = np.inf, compute: float = np.inf) -> Area:
    return area_of(clients, LINE, [4.0] * 6, storage=storage, compute=compute)


def both(*topics: int) -> tuple[set[int], set[int]]:
    return set(topics), set(topics)


def homes(area: Area, clusters: int = 2, **allocation: object) -> list[int]:
    given_ = Allocation(**allocation)  # type: ignore[arg-type]
    found: list[int] = allocated(area, given_, relations_of(area, given_.relations, given_.factors), clusters).tolist()
    return found


def test_clusters_are_those_of_the_servers_and_clients_belong_to_the_nearest_middle() -> None:
    area = on_a_line({"a": (0.0, *both(0)), "b": (0.0051, *both(0)), "c": (0.02, *both(0))})
    found = locality(area, 2)
    assert [each.tolist() for each in found.members] == [[0, 1], [2, 3]] or [
        each.tolist() for each in found.members
    ] == [[2, 3], [0, 1]]
    assert found.of_client[0] == found.of_client[1] == found.of_server[0]
    assert found.of_client[2] == found.of_server[3]


def test_a_grid_of_16_is_divided_into_its_quarters() -> None:
    area = drawn_area(Field(topics=4), 1)
    assert sorted(each.tolist() for each in locality(area, 4).members) == [
        [0, 1, 4, 5],
        [2, 3, 6, 7],
        [8, 9, 12, 13],
        [10, 11, 14, 15],
    ]


def test_locality_alone_gives_the_nearest_server_of_the_cluster() -> None:
    area = on_a_line({"a": (0.0, *both(0)), "b": (0.0009, *both(0)), "c": (0.02, *both(0))})
    assert homes(area, relation=False, cooperation=False) == [0, 1, 3]


def test_relation_brings_who_has_a_topic_in_common_to_one_server_of_a_cluster_but_not_across() -> None:
    area = on_a_line({"a": (0.0, *both(0)), "b": (0.0009, *both(0)), "c": (0.02, *both(0)), "d": (0.0012, *both(1))})
    assert homes(area, cooperation=False) == [0, 0, 3, 1]


def test_the_strongest_relation_is_followed_first() -> None:
    clients: Clients = {
        "a": (0.0, *both(0, 1)),
        "b": (0.001, *both(2)),
        "c": (0.0009, *both(0, 1, 2, 3)),
        "d": (0.001, *both(2)),
    }
    area = on_a_line(clients)
    related = relations_of(area, 3, 2)
    assert related[2].tolist()[0] == 0
    assert relations_of(area, 0, 2).shape == (4, 0)


def test_cooperation_sends_the_client_that_is_too_much_to_the_server_used_least() -> None:
    area = on_a_line({f"c{number}": (0.0, *both(0, number + 1)) for number in range(3)}, storage=8.0)
    assert homes(area, cooperation=False) == [0, 0, 0]
    found = homes(area)
    assert found[:2] == [0, 1]
    assert storage_of(area, np.array(found)).max() <= 12.0


def test_the_text_of_the_paper_moves_all_publishers_of_the_topic_and_the_pseudocode_one() -> None:
    area = on_a_line({f"c{number}": (0.0, *both(0)) for number in range(4)}, compute=12.0)
    assert homes(area, moves="client") == [0, 0, 0, 1]
    assert homes(area, moves="publishers") == [1, 1, 1, 1]


def test_where_no_server_of_the_cluster_keeps_all_the_nearest_is_taken_and_then_the_one_used_least() -> None:
    area = on_a_line({f"c{number}": (0.0, *both(number)) for number in range(6)}, storage=4.0)
    found = homes(area)
    assert sorted(np.bincount(found, minlength=2).tolist()) == [3, 3]
    assert homes(area, cooperation=False) == [0, 0, 1, 1, 0, 0]


def test_a_client_of_several_topics_has_one_home_and_all_its_topics_there() -> None:
    area = on_a_line({"a": (0.0, *both(0, 1, 2)), "b": (0.0, *both(1)), "c": (0.02, *both(2))})
    found = np.array(homes(area))
    assert found.tolist() == [0, 0, 3]
    assert storage_of(area, found).tolist() == [12.0, 0.0, 0.0, 4.0]


def test_one_that_only_subscribes_gets_a_home_and_uses_nothing_there() -> None:
    area = on_a_line({"a": (0.0, {0}, set()), "b": (0.01, set(), {0}), "c": (0.0, set(), set())})
    found = np.array(homes(area))
    assert found.tolist() == [0, 2, 0]
    assert load_of(area, found).tolist() == [4.0, 0.0, 0.0, 0.0]


def test_k_that_is_not_given_is_the_one_with_the_least_delay() -> None:
    looked: list[int] = []

    def valley(count: int) -> float:
        looked.append(count)
        return abs(count - 6.4)

    assert chosen_clusters(valley, 16) == 6
    assert sorted(looked) == [1, 2, 4, 5, 6, 7, 8, 12, 16]
    assert chosen_clusters(lambda _: 1.0, 5) == 1
    area = drawn_area(Field(topics=12, sigma_km=2.0), 3)
    home, count = best_allocated(area, Allocation())
    tried = {each: delay_of(area, best_allocated(area, Allocation(clusters=each))[0]).y_s for each in (1, 2, 4, 8, 16)}
    assert delay_of(area, home).y_s == delay_of(area, best_allocated(area, Allocation(clusters=count))[0]).y_s
    assert delay_of(area, home).y_s <= min(tried.values())


def test_one_topic_is_at_one_server_where_no_client_has_two() -> None:
    area = drawn_area(Field(topics=20, shared=False, sigma_km=8.0), 2)
    for by_first in (False, True):
        home = one_topic_one_server(area, Allocation(), by_first=by_first)
        for topic in range(20):
            assert len(set(home[area.owner[area.topic == topic]].tolist())) == 1
        assert storage_of(area, home).sum() == area.spool.sum()


def test_equal_factors_give_equal_relations_and_those_share_a_topic() -> None:
    area = drawn_area(Field(topics=30), 5)
    factors = factors_of(area, 8)
    related = strongest(area, factors, 10)
    assert (related == strongest(area, factors * -1.0, 10)).all()
    members = [set(area.topic[area.first[at] : area.first[at + 1]].tolist()) for at in range(len(area.clients))]
    for client, others in enumerate(related.tolist()):
        scores = [round(float(factors[client] @ factors[other]), 9) for other in others if other >= 0]
        assert scores == sorted(scores, reverse=True)
        assert all(members[client] & members[other] for other in others if other >= 0)


def test_spools_that_are_followed_are_those_computed_anew() -> None:
    area = drawn_area(Field(topics=16), 4)
    spools, rng = Spools(area), np.random.default_rng(1)
    for client in rng.integers(0, len(area.clients), 300).tolist():
        spools.move(client, int(rng.integers(0, 16)))
    assert spools.storage == pytest.approx(storage_of(area, spools.home))
    assert spools.load == pytest.approx(load_of(area, spools.home))


@given(st.integers(0, 10_000), st.sampled_from([60.0, 200.0, np.inf]))
@examples(max_examples=15)
def test_what_a_move_would_win_is_what_it_wins(seed: int, storage: float) -> None:
    area = drawn_area(Field(topics=8, servers=6, storage=storage, compute=5 * storage), seed)
    rng = np.random.default_rng(seed)
    ways = Ways(area, rng.integers(0, 6, len(area.clients)))
    for client in rng.integers(0, len(area.clients), 6).tolist():
        gains, to = ways.gains(client), int(rng.integers(0, 6))
        before = delay_of(area, ways.home).y_s
        ways.move(client, to)
        after = delay_of(area, ways.home).y_s
        assert gains[to] == pytest.approx((before - after) * ways.publications, abs=1e-12)
        assert ways.total_s() == pytest.approx(after * ways.publications)


def test_the_search_is_never_worse_than_where_it_begins() -> None:
    for seed in range(2):
        area = drawn_area(Field(topics=10, servers=9, sigma_km=10.0, storage=150.0), seed)
        begun = by_reloc(area, Allocation())
        assert delay_of(area, searched(area, begun, 20)).y_s <= delay_of(area, begun).y_s


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_that_can_be_tried_is_better_than_the_exact_answer(seed: int) -> None:
    area = drawn_area(Field(topics=2, servers=3, most_members=4, storage=7.0, compute=20.0, sigma_km=8.0), seed)
    clients = len(area.clients)
    assert clients <= 8
    found = delay_of(area, by_proof(area, Allocation())).y_s
    every = np.stack(np.meshgrid(*[np.arange(3)] * clients, indexing="ij"), axis=-1).reshape(-1, clients)
    assert found == pytest.approx(min(delay_of(area, home).y_s for home in every))
    assert found <= delay_of(area, by_search(area, Allocation())).y_s * (1 + 1e-9)


def test_an_area_that_is_too_large_to_be_solved_is_refused() -> None:
    with pytest.raises(ConfigError, match="too many; at most 24 and 6, or use reloc"):
        exact(drawn_area(Field(), 1))
    small = drawn_area(Field(topics=2, servers=3, most_members=4, spool=0.3), 1)
    with pytest.raises(ConfigError, match="whole numbers"):
        exact(small)


# Clients that move


def moved_about(area: Area, seed: int, km: float = 4.0) -> Area:
    """A part of the clients has gone some way."""
    rng = np.random.default_rng(seed)
    vec = area.at.vec.copy()
    some = rng.random(len(vec)) < 0.3
    vec[some] += rng.normal(0.0, km * 1e-4, (int(some.sum()), 2))
    return replace(area, at=replace(area.at, vec=vec))


@pytest.mark.parametrize("name", [area_homes.RELOC, area_homes.SEARCH, area_homes.NEAREST])
def test_while_clients_move_no_plan_changes_more_homes_than_its_budget_and_none_makes_it_worse(name: str) -> None:
    area = drawn_area(Field(topics=12, servers=9, sigma_km=6.0, storage=250.0), 7)
    area = replace(area, home=by_reloc(area, Allocation()))
    settings = Settings(allocation=Allocation(most_changes=10))
    changed = 0
    for interval in range(6):
        area = moved_about(area, interval)
        seen = snapshot_of(area)
        plan = POLICIES[name](seen, settings, 0.0)
        assert len(plan.homes) <= 10
        index = {client: at for at, client in enumerate(area.clients)}
        home = area.home.copy()
        for step in plan.homes:
            home[index[step.subscriber]] = seen.brokers.index(step.broker)
        if name != area_homes.NEAREST:
            assert delay_of(area, home).y_s <= delay_of(area, area.home).y_s
        changed += len(plan.homes)
        area = replace(area, home=home)
    assert changed > 0


def test_where_nothing_can_be_won_nothing_moves() -> None:
    area = drawn_area(Field(topics=10, servers=9, sigma_km=6.0), 7)
    area = replace(area, home=by_search(area, Allocation()))
    for name in (area_homes.SEARCH, area_homes.RELOC):
        assert POLICIES[name](snapshot_of(area), Settings(), 0.0).homes == ()


def test_the_changes_that_win_most_come_first_and_who_must_leave_before_them() -> None:
    area = on_a_line({f"c{number}": (0.01, *both(0)) for number in range(6)})
    area = replace(area, home=np.array([0, 1, 2, 0, NOWHERE, NOWHERE]))
    target = np.full(6, 2)
    leaving = np.array([True, True, True, True, True, False])
    found = rehomed(area, target, 2, leaving=leaving, only_better=True)
    assert found[[4, 5]].tolist() == [2, 2]  # one that must leave, and one that never had a home
    assert (found != area.home).sum() == 3
    assert found[1] == 1, "it has the shortest way of those that could go"
    waiting = rehomed(area, target, 0, leaving=leaving, only_better=True)
    assert waiting.tolist() == [0, 1, 2, 0, NOWHERE, 2]


def test_nearest_is_nearest() -> None:
    area = on_a_line({"a": (0.0101, *both(0)), "b": (0.0004, *both(0))})
    assert nearest(area, Allocation()).tolist() == [2, 0]
