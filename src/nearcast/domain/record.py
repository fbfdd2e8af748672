"""What the store holds of one topic: its live routes and how far its move has come. One key per topic."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nearcast.domain.log import TopicLog
from nearcast.domain.route import Route


class Phase(enum.StrEnum):
    PREPARING = "preparing"  # every agent of the transition subscribes, confirms, acknowledges
    TOLD = "told"  # clients may learn the new epoch
    DONE = "done"  # nobody uses an older epoch


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """`routes` are the live ones by epoch, the newest last; `told` is the epoch that clients may know.

    `lost`: brokers whose agent does not answer; `leaving`: brokers of routes that are over, to be released.
    `log`: of a persistent topic, with a segment for every epoch from when it became one.
    """

    topic: str
    phase: Phase
    routes: tuple[Route, ...]
    told: int
    term: int = 0
    lost: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    eager: bool = True
    log: TopicLog | None = None

    @property
    def newest(self) -> Route:
        return self.routes[-1]

    @property
    def current(self) -> Route:
        """The route that clients may know."""
        return next(route for route in self.routes if route.epoch == self.told)
