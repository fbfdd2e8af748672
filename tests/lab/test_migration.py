"""Topics moved on real servers while the control plane is far away: by us, and as clients that look up see it."""

import pytest

from nearcast.lab.experiments.epulsar_migration import EXPERIMENT, _pause_rows, _ratios
from nearcast.lab.live.migration import Batch, Edge, LookupMover, Mover, OurMover, Streams, edge_on
from nearcast.lab.live.steady import Account, Workflow
from nearcast.transport.endpoint import NATS, REDIS

TOPICS = 6
STEADY = 3
FAR_S = 0.04


async def moved(edge: Edge, mover: Mover, workflow: Workflow, executors: int) -> tuple[Batch, Account]:
    """All topics moved once, the control plane far away."""
    topics = [f"{workflow}-{number}" for number in range(TOPICS)]
    async with Streams(edge, workflow, topics, STEADY, seed=7) as streams:
        if isinstance(mover, OurMover):
            await mover.gather(topics, "b1")
        await edge.far(FAR_S)
        batch = await streams.batch(mover, TOPICS, ("b1", "b2"), executors=executors, delay_s=FAR_S)
        await edge.far(0.0)
        return batch, await streams.end()


@pytest.mark.parametrize("kind", [NATS, pytest.param(REDIS, marks=pytest.mark.slow)])
async def test_our_clients_are_never_without_a_broker_and_those_that_look_up_wait_for_the_wan(kind: str) -> None:
    async with edge_on(kind) as edge:
        async with OurMover(edge) as ours_mover:
            ours, account = await moved(edge, ours_mover, "ours", TOPICS)
        async with LookupMover(edge) as lookup_mover:
            lookup, lookup_account = await moved(edge, lookup_mover, "lookup", 1)
    assert ours.refused == 0
    assert max(ours.pauses_s) == 0.0
    assert (account.lost, account.repeated, account.reordered, account.reported) == (0, 0, 0, 0)
    assert account.delivered == account.published > STEADY * 50
    assert len(ours.silences_s) == len(lookup.silences_s) == STEADY
    assert min(lookup.pauses_s) >= 4 * FAR_S, "to the load manager and back, and to the store and back"
    assert lookup_account.delivered + lookup_account.lost == lookup_account.published
    assert all(took_s >= 4 * FAR_S for _, took_s in (*ours.times_s, *lookup.times_s))
    assert max(waited_s for waited_s, _ in ours.times_s) < 4 * FAR_S, "all at once"
    assert max(waited_s for waited_s, _ in lookup.times_s) >= (TOPICS - 1) * 4 * FAR_S, "one after the other"


def test_no_pause_counts_as_less_than_a_millisecond_in_either_workflow() -> None:
    pauses_s, silences_s = (0.0, 0.0005, 0.004), (0.02, 0.02, 0.02)
    ours, lookup = (Batch("ours", 0.0, 1, (), pauses_s, silences_s), Batch("lookup", 0.0, 1, (), pauses_s, silences_s))
    rows = [*_pause_rows([ours]), *_pause_rows([lookup])]
    assert [(row.median_ms, row.longest_ms) for row in rows] == [(1.0, 4.0)] * 2
    assert _ratios(rows) == [(0.0, 1.0)]


def test_what_must_hold_is_undertaken() -> None:
    rules = [(each.id, each.expected) for each in EXPERIMENT.expectations]
    assert rules[:3] == [("EP-6", ">= 3"), ("EP-6", "> 1"), ("EP-6", "< 1")]
    assert rules[-2:] == [("EP-7", "> 1"), ("EP-7", "> 1")]
