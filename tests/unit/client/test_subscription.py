"""What the shell around a subscriber adds to the machine: the wall clock of reports, and keys from names."""

import asyncio
import random

from nearcast.brokers.link import OnState
from nearcast.brokers.memory import MemoryLink
from nearcast.client import Client
from nearcast.client.channels import stable_key
from nearcast.client.live_subscription import LiveSubscription
from nearcast.control.instructions import Report
from nearcast.domain.errors import LinkDown
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.ring import Ring
from nearcast.sim.clock import SimClock
from nearcast.sim.loop import in_virtual_time
from nearcast.wire.dialect import Dialect


class JumpyClock(SimClock):
    """A wall clock that somebody sets."""

    ahead_s = 1_000.0

    def wall(self) -> float:
        return self.now() + self.ahead_s


async def nobody_there(broker: str, on_state: OnState) -> MemoryLink:
    del on_state  # there will never be a state to tell
    raise LinkDown(f"{broker} is not there")


async def pending(clock: SimClock, reports: list[Gap | Discontinuity]) -> LiveSubscription:
    """A subscription whose brokers cannot be reached."""
    client = Client("c", nobody_there, Ring(("H0",)), dialect=Dialect(b"k"), clock=clock, rng=random.Random(1))
    subscribing = asyncio.create_task(client.subscribe("t", on_report=reports.append))
    await clock.sleep(5.0)
    assert not subscribing.done()
    subscription = client._subscriptions["t"]
    assert isinstance(subscription, LiveSubscription)
    return subscription


@in_virtual_time
async def test_a_discontinuity_is_told_on_the_wall_clock() -> None:
    reports: list[Gap | Discontinuity] = []
    subscription = await pending(JumpyClock(), reports)
    subscription._follow([Report(Discontinuity("t", "H0", 3.0, None))])
    assert reports == [Discontinuity("t", "H0", 1_003.0, None)]


@in_virtual_time
async def test_what_closes_a_discontinuity_repeats_its_start_even_if_the_wall_clock_was_set() -> None:
    clock = JumpyClock()
    reports: list[Gap | Discontinuity] = []
    subscription = await pending(clock, reports)
    subscription._follow([Report(Discontinuity("t", "H0", 3.0, None))])
    clock.ahead_s = 2_000.0
    subscription._follow([Report(Discontinuity("t", "H0", 3.0, 4.0))])
    assert reports[1] == Discontinuity("t", "H0", 1_003.0, 2_004.0)


@in_virtual_time
async def test_a_gap_has_no_time_and_is_told_as_it_is() -> None:
    reports: list[Gap | Discontinuity] = []
    subscription = await pending(JumpyClock(), reports)
    subscription._follow([Report(Gap("t", 7, 1, 2))])
    assert reports == [Gap("t", 7, 1, 2)]


def test_the_key_of_a_name_is_the_same_in_every_process_and_differs_between_names() -> None:
    assert stable_key("drone-17") == 10682475428136084082
    assert len({stable_key(f"client{number}") % 4 for number in range(50)}) == 4
