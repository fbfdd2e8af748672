"""Was a promise broken only after a cause, such as a client that went elsewhere, and until its topic had followed?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from nearcast.domain.decision import Decision
from nearcast.domain.record import Phase
from nearcast.lab.experiment import Table
from nearcast.lab.heard import Heard, Windows
from nearcast.sim.history import Event


@dataclass(frozen=True, slots=True)
class Migration:
    """A topic's move to an epoch: begun, agents told, nobody left on the old route. `inf` for what did not come."""

    topic: str
    epoch: int
    begun_s: float
    told_s: float = inf
    done_s: float = inf


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What a run came to: how late messages were, which topics moved, and what the checker counted.

    `heard` is what may be judged. `whole` has also what was under way while the machine stood still, for `stalled_s`.
    `decisions`: why topics moved, the newest of each, with times since the run began; none in virtual time.
    """

    heard: Heard
    migrations: list[Migration]
    counts: Mapping[str, int | float]
    whole: Heard
    stalled_s: float = 0.0
    decisions: tuple[Decision, ...] = ()

    @property
    def held_up(self) -> int:
        """Deliveries that are not judged."""
        return len(self.whole) - len(self.heard)

    @property
    def missing(self) -> float:
        """Messages lost, repeated, out of order, or that nobody had published."""
        return sum(self.counts[name] for name in ("lost", "duplicated", "reordered", "invented"))

    @property
    def reports(self) -> float:
        return self.counts["gaps"] + self.counts["discontinuities"]


def decisions_table(decisions: Iterable[Decision]) -> dict[str, Table]:
    """None where there are no decisions. `worst_ms` is what was seen where the topic was, `predicted_ms` what was
    expected where it went.
    """
    rows = [
        (
            each.topic,
            round(each.at_s, 3),
            " ".join(each.was_brokers),
            " ".join(each.brokers),
            each.forecast.worst_ms,
            each.forecast.predicted_ms,
            each.reason,
            each.refused,
        )
        for each in sorted(decisions, key=lambda each: each.at_s)
    ]
    columns = ("topic", "at_s", "was", "to", "worst_ms", "predicted_ms", "reason", "refused")
    return {"decisions": Table(columns, tuple(rows))} if rows else {}


@dataclass(frozen=True, slots=True)
class Episode:
    """From one cause to the next. `over_s`: when the promise was last seen broken, from the cause on; 0 if never.

    `migrations` are those that began meanwhile; `outside` is how many windows over the bound came after the last of
    them was over, or after as long as it may take where there was none.
    """

    topic: str
    cause_s: float
    over_s: float
    outside: int
    migrations: tuple[Migration, ...]


def migrations(events: Iterable[Event]) -> list[Migration]:
    """From the notes of a history; epochs that were only ever implied have none."""
    seen: dict[tuple[str, int], dict[str, float]] = {}
    for event in events:
        if event[0] == "move":
            _, time_s, topic, epoch, phase = event
            seen.setdefault((topic, epoch), {}).setdefault(phase, time_s)
    return [
        Migration(topic, epoch, at[Phase.PREPARING], at.get(Phase.TOLD, inf), at.get(Phase.DONE, inf))
        for (topic, epoch), at in seen.items()
        if Phase.PREPARING in at
    ]


def episodes(
    topic: str,
    causes_s: Sequence[float],
    windows: Windows,
    moved: Iterable[Migration],
    *,
    bound_ms: float,
    window_s: float,
    settle_s: float,
    patience_s: float,
) -> list[Episode]:
    """Of one topic. `settle_s`: until clients have followed a migration that they were told of. `patience_s`: within
    that a promise may be broken where nothing migrated. Causes are sorted, and the first is the beginning of the run.
    """
    mine = sorted((each for each in moved if each.topic == topic), key=lambda each: each.begun_s)
    over_s = windows.at_s[windows.p95_ms > bound_ms]
    found = []
    for cause_s, next_s in zip(causes_s, (*causes_s[1:], inf), strict=True):
        meanwhile = tuple(each for each in mine if cause_s <= each.begun_s < next_s)
        end_s = max((each.told_s + settle_s for each in meanwhile), default=cause_s + patience_s)
        # A window in which the cause falls is partly before it.
        broken_s = over_s[(over_s > cause_s - window_s) & (over_s <= next_s - window_s)]
        last_s = float(broken_s[-1]) + window_s - cause_s if len(broken_s) else 0.0
        found.append(Episode(topic, cause_s, last_s, int(np.sum(broken_s > end_s)), meanwhile))
    return found
