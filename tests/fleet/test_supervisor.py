"""The supervisor: what dies is started again, and everything ends with it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from nearcast.domain.errors import FleetError
from nearcast.fleet.commands import CommandSpec
from nearcast.fleet.servers import ServerSpec
from nearcast.fleet.status import ChildStatus, FleetStatus, process_mark, read_status, write_status
from nearcast.fleet.supervisor import Patience, Supervisor

QUICK = Patience(first_s=0.01, last_s=0.05, stable_s=1.0, attempts=4)
READY = "import time; print('{\"ready\": true}'); time.sleep(60)"


def script(name: str, text: str = READY) -> CommandSpec:
    return CommandSpec(name, "test", (sys.executable, "-S", "-E", "-u", "-c", text))


def within(seconds: float, work: Coroutine[None, None, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # A state of another process has no event to wait for.
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    return process_mark(pid) is not None


def told(state: Path) -> FleetStatus:
    status = read_status(state)
    assert status is not None
    return status


def test_what_dies_is_started_again_and_it_is_said_and_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        said: list[str] = []
        async with Supervisor(tmp_path, say=said.append, patience=QUICK) as fleet:
            server = await fleet.start(ServerSpec("redis", "b1"))
            worker = await fleet.start(script("worker"))
            pids = [server.pid, worker.pid]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            await until(lambda: [child.restarts for child in told(tmp_path).children] == [1, 1])
            status = told(tmp_path)
            assert [child.state for child in status.children] == ["running", "running"]
            assert [child.pid for child in status.children] == [server.pid, worker.pid]
            assert not set(pids) & {server.pid, worker.pid}
            assert all(child.last_end == "was ended by SIGKILL" for child in status.children)
            assert status.children[0].url == server.endpoint.url
            assert any(line.startswith("b1 was ended by SIGKILL; starting it again") for line in said)
            assert f"worker runs again, as process {worker.pid}; restarts: 1" in said

    within(20, scenario())


def test_what_dies_again_and_again_at_its_start_is_given_up_with_its_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        once = tmp_path / "once"
        text = (
            f"import os, sys, time\nif os.path.exists({str(once)!r}): sys.exit('cannot work')\n"
            f"open({str(once)!r}, 'w').close()\nprint('{{\"ready\": true}}')\ntime.sleep(0.1)"
        )
        async with Supervisor(tmp_path / "state", patience=QUICK) as fleet:
            other = await fleet.start(script("other"))
            await fleet.start(script("worker", text))
            with pytest.raises(FleetError, match="worker is given up after 4 ends in a row") as failed:
                await fleet.keep()
            assert "cannot work" in str(failed.value)
            assert str(tmp_path / "state" / "logs" / "worker.log") in str(failed.value)
            assert [child.state for child in told(tmp_path / "state").children] == ["running", "failed"]
            assert alive(other.pid)

    within(20, scenario())


def test_deaths_that_are_far_apart_do_not_add_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        patience = Patience(first_s=0.01, last_s=0.01, stable_s=0.05, attempts=2)
        async with Supervisor(tmp_path, patience=patience) as fleet:
            await fleet.start(script("worker", READY.replace("60", "0.1")))
            await until(lambda: told(tmp_path).children[0].restarts >= 4)

    within(20, scenario())


def test_children_end_in_reverse_order_and_the_directory_can_be_used_again(tmp_path: Path) -> None:
    text = (
        "import signal, sys, time\n"
        "def end(*_): open(sys.argv[1], 'a').write(sys.argv[2] + ' '); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nprint('{\"ready\": true}')\ntime.sleep(60)"
    )

    async def scenario() -> None:
        ends = tmp_path / "ends"
        state = tmp_path / "state"
        for _ in range(2):
            async with Supervisor(state) as fleet:
                for name in "abc":
                    argv = (sys.executable, "-S", "-E", "-u", "-c", text, str(ends), name)
                    await fleet.start(CommandSpec(name, "test", argv))
                assert told(state).alive
                pids = [child.pid for child in told(state).children]
                with pytest.raises(FleetError, match="a: there is a child of this name"):
                    await fleet.start(script("a"))
            assert not any(alive(pid) for pid in pids)
            status = told(state)
            assert not status.alive
            assert (status.state, {child.state for child in status.children}) == ("stopped", {"stopped"})
        assert ends.read_text() == "c b a c b a "

    within(20, scenario())


def test_a_retired_child_ends_for_good(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Supervisor(tmp_path, patience=QUICK) as fleet:
            kept, gone = await fleet.start(script("kept")), await fleet.start(script("gone"))
            await fleet.retire("gone")
            assert not alive(gone.pid)
            assert [child.name for child in told(tmp_path).children] == ["kept"]
            assert alive(kept.pid)
            with pytest.raises(FleetError, match="gone: no such child; children are kept"):
                await fleet.retire("gone")
            await fleet.start(script("gone"))

    within(20, scenario())


def test_a_renewed_child_is_another_process_and_is_kept_running(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Supervisor(tmp_path, patience=QUICK) as fleet:
            worker = await fleet.start(script("worker"))
            first = worker.pid
            await fleet.renew("worker")
            second = worker.pid
            assert (alive(first), alive(second), second == first) == (False, True, False)
            (status,) = told(tmp_path).children
            assert (status.pid, status.restarts, status.last_end) == (second, 1, "was renewed")
            await worker.kill()
            await until(lambda: worker.pid != second and alive(worker.pid))
            with pytest.raises(FleetError, match="gone: no such child"):
                await fleet.renew("gone")

    within(20, scenario())


def test_a_second_fleet_in_one_directory_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Supervisor(tmp_path) as fleet:
            worker = await fleet.start(script("worker"))
            with pytest.raises(FleetError, match=f"process {os.getpid()} runs a fleet here"):
                async with Supervisor(tmp_path):
                    pass
            assert alive(worker.pid)
            assert told(tmp_path).alive

    within(20, scenario())


def test_a_launch_that_fails_ends_what_it_had_started(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def launch(fleet: Supervisor) -> None:
            await fleet.start(script("first"))
            await fleet.start(script("second", "raise SystemExit('no')"))

        with pytest.raises(FleetError, match="second: ended with code 1"):
            await Supervisor(tmp_path).run(launch, asyncio.Event())
        children = told(tmp_path).children
        assert [child.name for child in children] == ["first"]
        assert not alive(children[0].pid)

    within(20, scenario())


def test_a_run_ends_when_a_child_is_given_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def launch(fleet: Supervisor) -> None:
            await fleet.start(script("steady"))
            await fleet.start(script("worker", READY.replace("60", "0")))
            await asyncio.sleep(60)

        with pytest.raises(FleetError, match="worker is given up"):
            await Supervisor(tmp_path, patience=QUICK).run(launch, asyncio.Event())
        assert not any(alive(child.pid) for child in told(tmp_path).children)

    within(20, scenario())


FLEET = """
import asyncio, signal, sys
from pathlib import Path
from nearcast.fleet.commands import CommandSpec
from nearcast.fleet.servers import ServerSpec
from nearcast.fleet.supervisor import Supervisor

async def launch(fleet):
    await fleet.start(ServerSpec("nats", "b1", jetstream=True))
    await fleet.start(ServerSpec("redis", "b2"))
    await fleet.start(CommandSpec("worker", "test", (sys.executable, "-S", "-E", "-u", "-c", sys.argv[3])))
    print("launched", flush=True)
    if sys.argv[2] == "launching":
        await fleet.start(CommandSpec("slow", "test", (sys.executable, "-S", "-c", "import time; time.sleep(60)")))

async def main():
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await Supervisor(Path(sys.argv[1])).run(launch, stopped)
    print("ended", flush=True)

asyncio.run(main())
"""


def start_fleet(state: Path, mode: str = "launched") -> subprocess.Popen[str]:
    fleet = subprocess.Popen([sys.executable, "-c", FLEET, str(state), mode, READY], stdout=subprocess.PIPE, text=True)
    assert fleet.stdout is not None
    assert fleet.stdout.readline() == "launched\n"
    return fleet


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < deadline_s, "not within the deadline"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("mode", ["launched", "launching"])
def test_a_signal_ends_the_fleet_and_all_its_children(tmp_path: Path, number: signal.Signals, mode: str) -> None:
    with start_fleet(tmp_path, mode) as fleet:
        pids = [child.pid for child in told(tmp_path).children]
        assert len(pids) == 3
        fleet.send_signal(number)
        output, _ = fleet.communicate(timeout=15)
        assert (fleet.returncode, output) == (0, "ended\n")
    assert not any(alive(pid) for pid in pids)
    assert told(tmp_path).state == "stopped"


def test_a_killed_fleet_leaves_no_orphan_and_no_lock(tmp_path: Path) -> None:
    with start_fleet(tmp_path) as fleet:
        pids = [child.pid for child in told(tmp_path).children]
        fleet.kill()
        fleet.wait()
    assert not told(tmp_path).alive
    with start_fleet(tmp_path) as fleet:
        assert not any(alive(pid) for pid in pids)
        fleet.terminate()
        fleet.communicate(timeout=15)
        assert fleet.returncode == 0
    wait_until(lambda: not any(child.alive for child in told(tmp_path).children))


def test_a_fleet_waits_for_the_last_children_of_its_predecessor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        with subprocess.Popen(["sleep", "60"]) as left:  # noqa: ASYNC220  # It returns at once.
            mark = process_mark(left.pid)
            assert mark is not None
            child = ChildStatus("left", "test", left.pid, mark, "running", 0, "left.log")
            write_status(tmp_path, FleetStatus(1, 0, "running", (child,)))
            monkeypatch.setattr("nearcast.fleet.supervisor._PREDECESSOR_S", 0.1)
            with pytest.raises(FleetError, match=rf"an earlier fleet still run: left \(process {left.pid}\)"):
                async with Supervisor(tmp_path):
                    pass
            monkeypatch.setattr("nearcast.fleet.supervisor._PREDECESSOR_S", 10.0)
            asyncio.get_running_loop().call_later(0.2, left.kill)
            async with Supervisor(tmp_path):
                assert not alive(left.pid)

    within(20, scenario())


def test_a_status_that_is_not_ours_is_named(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    (tmp_path / "fleet.json").write_text("{}")
    with pytest.raises(FleetError, match=r"fleet\.json: is not a status of a fleet"):
        read_status(tmp_path)
