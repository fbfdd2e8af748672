import random

import numpy as np
import pytest

from nearcast.domain.route import Route, Strategy, route
from nearcast.sim.flow_load import Crowd, RouteTable, offered

BROKERS = ("a", "b", "c")


def crowd_of(*clients: tuple[int, int, float, bool]) -> Crowd:
    """Clients as (topic, key, rate, listens)."""
    topic, key, rate, listens = zip(*clients, strict=True)
    return Crowd(
        np.array(topic, dtype=np.intp),
        np.array(key, dtype=np.int64),
        np.array(rate, dtype=np.float64),
        np.array(listens, dtype=np.bool_),
        np.full(len(topic), 40.0),
    )


def test_one_broker_sends_every_publication_to_every_subscriber() -> None:
    crowd = crowd_of(*((0, key, 3.0, True) for key in range(10)))
    load = offered(crowd, RouteTable.of({"t": Route(1, Strategy.SINGLE, ("b",))}, ["t"], BROKERS))
    assert load.publications_hz.tolist() == [[0.0, 30.0, 0.0]]
    assert load.deliveries_hz.tolist() == [[0.0, 300.0, 0.0]]


def test_all_subscribers_splits_the_publications() -> None:
    crowd = crowd_of(*((0, key, 3.0, True) for key in range(9)))
    load = offered(crowd, RouteTable.of({"t": route(1, Strategy.ALL_SUBSCRIBERS, BROKERS)}, ["t"], BROKERS))
    assert load.publications_hz.tolist() == [[9.0, 9.0, 9.0]]
    assert load.subscribers.tolist() == [[9.0, 9.0, 9.0]]
    assert load.deliveries_hz.sum() == 9 * 3.0 * 9


def test_all_publishers_splits_the_subscribers() -> None:
    crowd = crowd_of(*((0, key, 3.0, True) for key in range(9)))
    load = offered(crowd, RouteTable.of({"t": route(1, Strategy.ALL_PUBLISHERS, BROKERS)}, ["t"], BROKERS))
    assert load.publications_hz.tolist() == [[27.0, 27.0, 27.0]]
    assert load.subscribers.tolist() == [[3.0, 3.0, 3.0]]
    assert load.deliveries_hz.sum() == 9 * 3.0 * 9


def test_homed_routes_are_refused() -> None:
    with pytest.raises(ValueError, match="homed"):
        RouteTable.of({"t": route(1, Strategy.HOMED, BROKERS)}, ["t"], BROKERS)


@pytest.mark.parametrize("seed", range(20))
def test_the_arrays_say_what_each_client_asking_its_route_says(seed: int) -> None:
    rng = random.Random(seed)
    topics = [f"t{number}" for number in range(5)]
    kinds = (Strategy.SINGLE, Strategy.ALL_SUBSCRIBERS, Strategy.ALL_PUBLISHERS)
    routes = {}
    for topic in topics:
        kind = rng.choice(kinds)
        routes[topic] = route(1, kind, rng.sample(BROKERS, 1 if kind is Strategy.SINGLE else rng.randint(1, 3)))
    clients = [
        (rng.randrange(5), rng.randrange(2**40), rng.choice([0.0, 1.0, 4.0]), rng.random() < 0.7) for _ in range(60)
    ]
    load = offered(crowd_of(*clients), RouteTable.of(routes, topics, BROKERS))

    publications, subscribers = np.zeros((5, 3)), np.zeros((5, 3))
    for row, key, rate, listens in clients:
        for broker in routes[topics[row]].publish_to(key):
            publications[row, BROKERS.index(broker)] += rate
        for broker in routes[topics[row]].attach_to(key) if listens else ():
            subscribers[row, BROKERS.index(broker)] += 1
    assert load.publications_hz.tolist() == publications.tolist()
    assert load.subscribers.tolist() == subscribers.tolist()
    assert load.deliveries_hz.tolist() == (publications * subscribers).tolist()
