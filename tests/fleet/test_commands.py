"""Commands: ready when they say so, ended for sure, with all that they print in a log."""

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path

import pytest

from nearcast.domain.errors import ConfigError, FleetError
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.processes import LOG_BYTES
from nearcast.fleet.status import process_mark


def script(text: str, *, start_s: float = 10.0) -> CommandSpec:
    return CommandSpec("worker", "test", (sys.executable, "-S", "-E", "-u", "-c", text), start_s=start_s)


def within(seconds: float, work: Coroutine[None, None, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


def test_a_command_is_ready_when_it_says_so_and_its_facts_are_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        text = (
            "import time\nprint('hello')\nprint('{not json')\nprint('{\"ready\": false}')\n"
            'time.sleep(0.2)\nprint(\'{"ready": true, "port": 7}\')\ntime.sleep(60)'
        )
        command = await Command.start(script(text), tmp_path)
        assert command.facts == {"port": 7}
        assert command.log == tmp_path / "logs" / "worker.log"
        assert command.log.read_text().startswith("hello\n")
        first = command.pid
        await command.restart()
        assert process_mark(first) is None
        await command.stop()
        assert process_mark(command.pid) is None

    within(20, scenario())


def test_a_command_that_ends_before_it_is_ready_shows_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(FleetError, match="worker: ended with code 3 before it was ready") as failed:
            await Command.start(script("import sys; print('no such thing', file=sys.stderr); sys.exit(3)"), tmp_path)
        assert str(tmp_path / "logs" / "worker.log") in str(failed.value)
        assert "no such thing" in str(failed.value)

    within(20, scenario())


def test_a_command_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(FleetError, match=r"worker: was not ready within 0\.5 s") as failed:
            await Command.start(script("import os, time; print(os.getpid()); time.sleep(60)", start_s=0.5), tmp_path)
        assert process_mark(int(str(failed.value).split()[-1])) is None

    within(20, scenario())


def test_a_command_that_ignores_term_is_killed_with_what_it_started(tmp_path: Path) -> None:
    async def scenario() -> None:
        text = (
            "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "if not (child := os.fork()): time.sleep(60)\n"
            'print(\'{"ready": true, "child": %d}\' % child)\ntime.sleep(60)'
        )
        command = await Command.start(script(text), tmp_path)
        grandchild = int(str(command.facts["child"]))
        await command.stop(0.2)
        assert process_mark(command.pid) is None
        while process_mark(grandchild) is not None:  # noqa: ASYNC110  # A process that is not ours has no event.
            await asyncio.sleep(0.01)

    within(20, scenario())


def test_a_stop_that_is_cancelled_kills(tmp_path: Path) -> None:
    async def scenario() -> None:
        text = (
            "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "print('{\"ready\": true}')\ntime.sleep(60)"
        )
        command = await Command.start(script(text), tmp_path)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await command.stop(30)
        assert process_mark(command.pid) is None

    within(20, scenario())


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(FleetError, match=r"worker: '/no/such/program' cannot be run: .*No such file"):
            await Command.start(CommandSpec("worker", "test", ("/no/such/program",)), tmp_path)

    within(20, scenario())


def test_a_long_log_is_put_aside_when_its_process_starts_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        command = await Command.start(script("import time; print('{\"ready\": true}'); time.sleep(60)"), tmp_path)
        await command.stop()
        short = command.log.read_text()
        await command.restart()
        await command.stop()
        assert command.log.read_text() == 2 * short, "a short one goes on"
        command.log.write_bytes(b"x" * (LOG_BYTES + 1))
        await command.restart()
        await command.stop()
        assert command.log.read_text() == short
        assert (tmp_path / "logs" / "worker.log.1").stat().st_size == LOG_BYTES + 1

    within(20, scenario())


@pytest.mark.parametrize("name", ["", "a/b", "..", "logs", "fleet.json"])
def test_a_name_that_cannot_be_a_file_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="child name"):
        CommandSpec(name, "test", ("true",))
