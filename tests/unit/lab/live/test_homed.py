"""When a method is measured again, and which of its times counts."""

import numpy as np

from nearcast.lab.live.homed import QUIET_S, Told, quietest


async def told(most: int, *crossings_s: float) -> tuple[float, int, int]:
    """How late the emulator was when it counts, how often it was measured, and who heard then."""
    left = [Told(np.zeros(1), heard, each) for heard, each in enumerate(crossings_s)]

    async def measure() -> Told:
        return left.pop(0)

    found = await quietest(measure, most)
    return found.crossing_s, found.times, found.heard


async def test_a_quiet_machine_is_measured_once() -> None:
    assert await told(4, QUIET_S, 0.0) == (QUIET_S, 1, 0)


async def test_a_machine_that_has_other_things_to_do_is_measured_until_it_has_not() -> None:
    assert await told(4, 0.02, 0.01, 0.001, 0.0) == (0.001, 3, 2)


async def test_of_a_machine_that_is_never_quiet_the_quietest_time_counts() -> None:
    assert await told(3, 0.02, 0.005, 0.01, 0.0) == (0.005, 3, 1)
