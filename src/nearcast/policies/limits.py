"""What every elastic policy keeps to: the time between two plans, how many servers there may be, and what is needed."""

import numpy as np

from nearcast.domain.errors import SnapshotError
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.settings import Settings

_NO_LIMIT = 2**31


def wait_reason(snapshot: Snapshot, settings: Settings, now_s: float) -> str:
    """Why it is too early for a plan; empty if it is not (Dynamoth's T_wait).

    A server that nothing is routed to ends the wait while another is overloaded: it was rented for that. While one can
    send no more, half the wait is enough: its clients wait with every second, and averages have forgotten the moves.
    """
    if snapshot.planned_s is None:
        return ""
    busiest = snapshot.load_ratios[snapshot.usable].max(initial=0.0)
    wait_s = settings.wait_s / 2 if busiest >= settings.full_ratio else settings.wait_s
    since_s = now_s - snapshot.planned_s
    idle = snapshot.usable.copy()
    idle[snapshot.members] = False
    if since_s >= wait_s or (idle.any() and busiest > settings.high_ratio):
        return ""
    return f"the last plan is {since_s:.1f} s old: no other before {wait_s:g} s, so that its moves can settle"


def most_to_rent(snapshot: Snapshot, settings: Settings) -> int:
    """How many servers may be ordered. Those on their way count, and draining ones too: they still cost."""
    if settings.max_brokers is None:
        return _NO_LIMIT
    return max(0, settings.max_brokers - int((~snapshot.silent).sum()) - snapshot.renting)


def must_know_capacities(name: str, snapshot: Snapshot) -> None:
    """Raises SnapshotError: a policy that balances load needs to know what every broker can send."""
    unknown = np.flatnonzero(~snapshot.silent & np.isinf(snapshot.capacity)).tolist()
    if unknown:
        broker = snapshot.brokers[unknown[0]]
        raise SnapshotError(
            f"snapshot: policy {name!r} needs to know what brokers can send, and {broker!r} has not said;"
            " give its out_bytes_per_s (`nearcast up --capacity`)"
        )
