"""Leases by compare-and-set in virtual time: clocks that disagree, answers that are lost."""

import asyncio

import pytest

from nearcast.domain.errors import StoreDown, StoreError
from nearcast.sim.clock import SimClock, Skew
from nearcast.sim.loop import in_virtual_time
from nearcast.store.cas_leases import CasLeases
from nearcast.store.memory import MemoryStore
from nearcast.store.store import ABSENT

TTL_S = 6.0


def process(store: MemoryStore, skew: Skew | None = None) -> CasLeases:
    clock = SimClock(skew)
    return CasLeases(store.handle(clock), clock)


async def wait_for(leases: CasLeases, owner: str, ttl_s: float = TTL_S) -> float:
    """Ask ten times a second until it is given; how long that took."""
    began_s = asyncio.get_running_loop().time()
    while await leases.acquire("leader", owner, ttl_s) is None:  # noqa: ASYNC110  # asking is what is tested
        await asyncio.sleep(0.1)
    return asyncio.get_running_loop().time() - began_s


@in_virtual_time
async def test_who_has_seen_the_lease_unchanged_for_its_length_takes_it() -> None:
    store = MemoryStore(SimClock())
    one, other = process(store), process(store)
    assert await one.acquire("leader", "one", TTL_S) == 1
    assert TTL_S < await wait_for(other, "other") < 1.2 * TTL_S
    assert await one.acquire("leader", "one", TTL_S) is None


@in_virtual_time
async def test_who_has_not_looked_before_waits_for_a_whole_length() -> None:
    """It cannot know how old the lease is, nor by how much the clock that could tell is wrong."""
    store = MemoryStore(SimClock())
    await process(store).acquire("leader", "one", TTL_S)
    await asyncio.sleep(1000)
    assert TTL_S < await wait_for(process(store), "other") < 1.2 * TTL_S


@in_virtual_time
async def test_a_contender_waits_for_the_length_that_the_holder_asked_for() -> None:
    store = MemoryStore(SimClock())
    await process(store).acquire("leader", "one", 10 * TTL_S)
    assert await wait_for(process(store), "other", 0.1) > 10 * TTL_S


@in_virtual_time
async def test_a_holder_that_renews_is_never_replaced() -> None:
    store = MemoryStore(SimClock())
    one, other = process(store), process(store)
    for _ in range(100):
        assert await one.acquire("leader", "one", TTL_S) == 1
        assert await other.acquire("leader", "other", TTL_S) is None
        await asyncio.sleep(0.9 * TTL_S)


@pytest.mark.parametrize(("holder", "contender"), [(0.0, 0.08), (-0.08, 0.0), (-0.04, 0.04), (0.08, -0.08)])
@in_virtual_time
async def test_no_two_hold_it_though_their_clocks_run_apart(holder: float, contender: float) -> None:
    """As much as a clock is corrected by in practice."""
    store = MemoryStore(SimClock(), delay_s=0.01)
    clock = SimClock(Skew(now_origin_s=1e6, now_drift=holder))
    one = CasLeases(store.handle(clock), clock)
    other = process(store, Skew(now_origin_s=-5.0, now_drift=contender))
    until_s = clock.now() + TTL_S
    assert await one.acquire("leader", "one", TTL_S) is not None
    await wait_for(other, "other")
    assert clock.now() >= until_s, "the holder still acts"


@in_virtual_time
async def test_a_contender_that_was_stopped_does_not_take_what_was_renewed_meanwhile() -> None:
    store = MemoryStore(SimClock())
    one, other = process(store), process(store)
    await one.acquire("leader", "one", TTL_S)
    assert await other.acquire("leader", "other", TTL_S) is None
    for _ in range(5):
        await asyncio.sleep(0.5 * TTL_S)
        await one.acquire("leader", "one", TTL_S)
    assert await other.acquire("leader", "other", TTL_S) is None


@in_virtual_time
async def test_a_renewal_that_comes_just_before_the_contender_writes_wins() -> None:
    store = MemoryStore(SimClock(), delay_s=1.0)
    one, other = process(store), process(store)
    assert await one.acquire("leader", "one", TTL_S) == 1
    assert await other.acquire("leader", "other", TTL_S) is None
    await asyncio.sleep(1.1 * TTL_S)
    late = asyncio.create_task(one.acquire("leader", "one", TTL_S))
    await asyncio.sleep(0.5)
    assert await other.acquire("leader", "other", TTL_S) is None
    assert await late == 2, "it had run out: nobody can say that nobody acted in between"


@in_virtual_time
async def test_a_holder_whose_renewal_was_not_answered_keeps_its_term() -> None:
    store = MemoryStore(SimClock(), delay_s=0.5)
    clock = SimClock()
    handle = store.handle(clock)
    one = CasLeases(handle, clock)
    assert await one.acquire("leader", "one", TTL_S) == 1
    await lose_the_answer(one, store)
    assert await one.acquire("leader", "one", TTL_S) == 1


@in_virtual_time
async def test_one_that_was_not_told_that_it_got_it_gets_it_with_a_higher_term() -> None:
    store = MemoryStore(SimClock(), delay_s=0.5)
    one, other = process(store), process(store)
    await lose_the_answer(one, store)
    assert await other.acquire("leader", "other", TTL_S) is None
    assert await one.acquire("leader", "one", TTL_S) == 2


async def lose_the_answer(leases: CasLeases, store: MemoryStore) -> None:
    """The write is done (after 1.5 s: a read there and back, and the way there), and its answer does not come."""
    asking = asyncio.create_task(leases.acquire("leader", "one", TTL_S))
    await asyncio.sleep(1.7)
    store.down = True
    with pytest.raises(StoreDown, match="it may have been done"):
        await asking
    store.down = False


@in_virtual_time
async def test_one_that_was_started_anew_need_not_wait_for_itself() -> None:
    store = MemoryStore(SimClock())
    before = process(store)
    assert await before.acquire("leader", "one", TTL_S) == 1
    assert await process(store).acquire("leader", "one", TTL_S) == 2
    assert await process(store).acquire("leader", "other", TTL_S) is None


@in_virtual_time
async def test_a_release_is_the_holders_own_and_survives_its_own_renewal() -> None:
    store = MemoryStore(SimClock(), delay_s=0.5)
    one, other = process(store), process(store)
    assert await one.acquire("leader", "one", TTL_S) == 1
    await asyncio.gather(one.acquire("leader", "one", TTL_S), one.release("leader", "one"))
    assert await other.acquire("leader", "other", TTL_S) == 2
    await one.release("leader", "one")
    assert await process(store).acquire("leader", "third", TTL_S) is None


@in_virtual_time
async def test_what_is_not_a_lease_is_reported_and_left_alone() -> None:
    store = MemoryStore(SimClock())
    store.put("leader", b"{", ABSENT)
    with pytest.raises(StoreError, match="the lease 'leader' is not readable"):
        await process(store).acquire("leader", "one", TTL_S)
    assert store.get("leader") is not None
