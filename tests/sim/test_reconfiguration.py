"""Seeds of the reconfiguration run: nothing lost, the same in every process, and able to fail."""

import hashlib
import subprocess
import sys

import pytest

from nearcast.control.rules import ALL_ON
from nearcast.sim.check import check
from nearcast.sim.reconfiguration import Scale, grace_s, run_seed
from nearcast.sim.trace import first_finding, minimal_trace

SMALL = Scale(topics=6, clients=15, run_s=12.0)


@pytest.mark.parametrize("seed", range(20, 24))
def test_without_faults_nothing_is_lost_repeated_or_reported(seed: int) -> None:
    result = check(run_seed(seed, faults=False, scale=SMALL), grace_s=grace_s(False))
    assert result.delivered > 100
    assert result.clean, f"{result.counts()}\nreplay: nearcast lab replay dynamoth.reconfiguration --seed {seed}"


@pytest.mark.parametrize("seed", range(20, 26))
def test_with_faults_every_missing_message_lies_in_a_report(seed: int) -> None:
    result = check(run_seed(seed, faults=True, scale=SMALL), grace_s=grace_s(True))
    assert result.delivered > 100
    assert result.honest, (
        f"{result.counts()}\nreplay: nearcast lab replay dynamoth.reconfiguration --seed {seed} --faults"
    )


_PRINT_DIGEST = """
import hashlib, sys
from nearcast.sim.reconfiguration import Scale, run_seed
small = Scale(topics=6, clients=15, run_s=12.0)
history = run_seed(int(sys.argv[1]), faults=True, scale=small)
print(hashlib.sha256(history.to_bytes()).hexdigest())
"""


def test_a_seed_gives_the_same_bytes_in_another_process() -> None:
    here = hashlib.sha256(run_seed(7, faults=True, scale=SMALL).to_bytes()).hexdigest()
    there = [
        subprocess.run(
            [sys.executable, "-c", _PRINT_DIGEST, "7"],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    ]
    assert there == [here, here]


def test_different_seeds_give_different_runs() -> None:
    assert run_seed(1, faults=False, scale=SMALL).to_bytes() != run_seed(2, faults=False, scale=SMALL).to_bytes()


def test_with_legs_off_the_seeds_find_messages_out_of_order() -> None:
    rules = ALL_ON.without("legs")
    results = [
        check(run_seed(seed, faults=False, rules=rules, scale=SMALL), grace_s=grace_s(False)) for seed in range(20, 24)
    ]
    assert sum(len(result.reordered) for result in results) > 0


def test_a_finding_has_a_trace_of_the_events_around_it() -> None:
    rules = ALL_ON.without("legs")
    for seed in range(20, 30):
        history = run_seed(seed, faults=False, rules=rules, scale=SMALL)
        found = first_finding(check(history, grace_s=grace_s(False)))
        if found is not None:
            trace = minimal_trace(history, found[1])
            assert any("delivered" in line for line in trace)
            assert len(trace) < len(history.events) / 4
            return
    pytest.fail("no seed showed a message out of order")
