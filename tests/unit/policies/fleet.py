"""Small fleets for the tests of policies: brokers of capacity 100 unless said otherwise, loads in the same unit."""

from collections.abc import Collection, Mapping

from nearcast.domain.load import UNKNOWN, BrokerReport, Resources, TopicLoad
from nearcast.domain.places import Places
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy, route
from nearcast.domain.snapshot import Snapshot


def load(
    topic: str, out: float, publications: float = 1.0, subscribers: int = 1, *, bytes_in: float | None = None
) -> TopicLoad:
    came = out / subscribers if bytes_in is None else bytes_in
    return TopicLoad(topic, publications, publications * subscribers, came, out, 1, subscribers)


def fleet(
    brokers: Mapping[str, Collection[TopicLoad]],
    routes: Mapping[str, Route] | None = None,
    *,
    ring: tuple[str, ...] = (),
    capacity: Mapping[str, float] | None = None,
    other: Mapping[str, float] | None = None,
    draining: Collection[str] = (),
    planned_s: float | None = None,
    renting: int = 0,
    places: Places | None = None,
    used: Mapping[str, Resources] | None = None,
    most: Resources = UNKNOWN,
    relieved: Collection[str] = (),
) -> Snapshot:
    """Topics are where they are seen, by a route of their own, unless `routes` says otherwise.

    `other`: what a broker sends beyond its topics.
    """
    reports = [
        BrokerReport(
            name,
            0.0,
            sum(each.bytes_out for each in loads) + (other or {}).get(name, 0.0),
            (capacity or {}).get(name, 100.0),
            tuple(loads),
            (used or {}).get(name, UNKNOWN),
            most,
        )
        for name, loads in brokers.items()
    ]
    seen = {each.topic: route(1, Strategy.SINGLE, (name,)) for name, loads in brokers.items() for each in loads}
    return Snapshot.of(
        reports,
        {**seen, **(routes or {})},
        Ring(ring or (min(brokers),), vnodes=8),
        at_s=100.0,
        draining=draining,
        planned_s=planned_s,
        renting=renting,
        relieved=relieved,
        places=places,
    )
