"""Real servers: started, stopped, killed, paused, and never left behind."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from nearcast.domain.errors import ConfigError, FleetError
from nearcast.fleet.probe import Refused, ask
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.fleet.status import process_mark
from nearcast.transport.endpoint import NATS, REDIS, Endpoint, Tls

KINDS = pytest.mark.parametrize("kind", [NATS, REDIS])


@asynccontextmanager
async def running(spec: ServerSpec, state: Path) -> AsyncIterator[Server]:
    server = await Server.start(spec, state)
    try:
        yield server
    finally:
        await server.kill()


def within(seconds: float, work: Coroutine[None, None, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


async def answers(server: Server) -> bool:
    try:
        async with asyncio.timeout(0.3):
            await ask(server.endpoint, server.pid)
    except (OSError, EOFError, TimeoutError):
        return False
    return True


def alive(pid: int) -> bool:
    return process_mark(pid) is not None


def threads_at(pid: int) -> set[str]:
    """The states of its threads, in the kernel's letters."""
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")}


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s, "not within the deadline"
        time.sleep(0.01)


@KINDS
def test_a_started_server_answers_and_a_stopped_one_is_gone(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(ServerSpec(kind, "b1"), tmp_path) as server:
            assert await answers(server)
            assert server.log.read_text()
            states = [server.running]
            await server.stop()
            states.append(server.running)
            assert states == [True, False]
            assert not await answers(server)
            assert not alive(server.pid)
            await server.stop()

    within(20, scenario())


@KINDS
def test_a_restart_keeps_port_and_data_after_a_stop_a_kill_and_nothing(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(ServerSpec(kind, "b1", jetstream=kind == NATS), tmp_path) as server:
            endpoint, data, pids = server.endpoint, server.data, [server.pid]
            for end in (server.stop, server.kill, None):
                if end is not None:
                    await end()
                await server.restart()
                assert await answers(server)
                assert (server.endpoint, server.data) == (endpoint, data)
                pids.append(server.pid)
            assert len(set(pids)) == 4
            assert not any(alive(pid) for pid in pids[:3])

    within(30, scenario())


def test_a_monitoring_port_answers_on_this_machine_and_is_kept_over_restarts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(ServerSpec(NATS, "s", monitor=True), tmp_path) as server:
            url = server.monitor_url
            assert url is not None
            assert url.startswith("http://127.0.0.1:")
            await server.kill()
            await server.restart()
            assert server.monitor_url == url
            with await asyncio.to_thread(urlopen, f"{url}/varz", timeout=5) as answer:
                assert json.load(answer)["server_name"] == "s"
        async with running(ServerSpec(NATS, "without"), tmp_path) as server:
            assert server.monitor_url is None

    within(20.0, scenario())


@KINDS
def test_a_paused_server_keeps_silent_until_it_is_resumed(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(ServerSpec(kind, "b1"), tmp_path) as server:
            server.pause()
            assert threads_at(server.pid) == {"T"}, "at once"
            assert not await answers(server)
            server.resume()
            assert await answers(server)
            server.pause()
            await server.stop()
            assert not alive(server.pid)

    within(20, scenario())


def test_a_paused_server_can_be_stopped_without_waiting_for_the_kill(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(ServerSpec(REDIS, "b1"), tmp_path) as server:
            server.pause()
            await server.stop()
            assert await server.wait() == 0, "it ended by itself"

    within(20, scenario())


@KINDS
def test_who_waits_for_a_server_learns_of_its_death(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(ServerSpec(kind, "b1"), tmp_path) as server:
            waiting = [asyncio.create_task(server.wait()) for _ in range(2)]
            await asyncio.sleep(0)
            os.kill(server.pid, signal.SIGKILL)
            assert await asyncio.gather(*waiting) == [-signal.SIGKILL] * 2

    within(20, scenario())


@KINDS
def test_credentials_are_asked_for_and_not_shown(kind: str, tmp_path: Path) -> None:
    password = "p\"a's\\s $w #ö"  # noqa: S105  # of a server that lives for this test

    async def scenario() -> None:
        async with running(ServerSpec(kind, "b1", user="alice", password=password), tmp_path) as server:
            at = server.endpoint
            assert (at.user, at.password) == ("alice", password)
            for wrong in (Endpoint(kind, at.host, at.port), Endpoint(kind, at.host, at.port, "alice", "other")):
                with pytest.raises(Refused):
                    await ask(wrong, server.pid)
            assert password not in repr(server.spec) + repr(server.endpoint)
            modes = [path.stat().st_mode & 0o077 for path in (tmp_path / "b1").glob("*.conf")]
            assert modes == [0]

    within(20, scenario())


def test_redis_takes_a_password_without_a_user(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(ServerSpec(REDIS, "b1", password="secret"), tmp_path) as server:  # noqa: S106
            at = server.endpoint
            with pytest.raises(Refused):
                await ask(Endpoint(REDIS, at.host, at.port), server.pid)

    within(20, scenario())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    where = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=broker.test"
    files = ["-addext", "subjectAltName=DNS:broker.test", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*command.split(), *files], cwd=where, check=True, capture_output=True)
    return Tls(where / "cert.pem", where / "cert.pem", where / "key.pem", "broker.test")


@KINDS
def test_with_tls_clients_can_check_who_it_is(kind: str, tmp_path: Path, certificate: Tls) -> None:
    async def scenario() -> None:
        async with running(ServerSpec(kind, "b1", tls=certificate), tmp_path) as server:
            at = server.endpoint
            assert at.tls is not None
            assert at.tls.cert_file is None
            assert await answers(server)
            at_once = at.tls.client_context() if kind == REDIS else None
            name = at.tls.server_name
            reader, writer = await asyncio.open_connection(
                at.host, at.port, ssl=at_once, server_hostname=name if at_once else None
            )
            if kind == NATS:
                await reader.readline()
                await writer.start_tls(at.tls.client_context(), server_hostname=name)
            writer.close()
            await writer.wait_closed()
            with pytest.raises((Refused, OSError, EOFError)):
                await ask(Endpoint(kind, at.host, at.port), server.pid)

    within(20, scenario())


@KINDS
def test_a_taken_port_is_an_error_that_shows_the_log(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(ServerSpec(kind, "first"), tmp_path) as first:
            port = first.endpoint.port
            with pytest.raises(FleetError) as failed:
                await Server.start(ServerSpec(kind, "second", port), tmp_path)
            message = str(failed.value)
            assert message.startswith(f"second: port {port} is taken")
            assert str(tmp_path / "logs" / "second.log") in message
            assert "ddress already in use" in message
            assert await answers(first)

    within(20, scenario())


@KINDS
def test_a_free_port_that_was_taken_meanwhile_is_given_up(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
            ports = [taken.getsockname()[1], free.getsockname()[1]]
            free.close()
            monkeypatch.setattr("nearcast.fleet.servers.free_port", iter(ports).__next__)
            async with running(ServerSpec(kind, "b1"), tmp_path) as server:
                assert server.endpoint.port == ports[1]

    within(20, scenario())


@KINDS
def test_what_it_cannot_use_is_shown_with_the_log(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        bad = Tls(None, tmp_path / "absent.pem", tmp_path / "absent.key")
        with pytest.raises(FleetError, match="ended with code 1 while starting") as failed:
            await Server.start(ServerSpec(kind, "b1", tls=bad), tmp_path)
        assert "absent.pem" in str(failed.value)
        assert str(tmp_path / "logs" / "b1.log") in str(failed.value)

    within(20, scenario())


@KINDS
def test_an_abandoned_start_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    before = children()  # Another test of this process may keep one: Spark's Java, say.

    async def scenario() -> None:
        starting = asyncio.create_task(Server.start(ServerSpec(kind, "b1"), tmp_path))
        while not (tmp_path / "logs" / "b1.log").exists():  # noqa: ASYNC110  # A file has no event to wait for.
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert children() <= before

    within(20, scenario())


def children() -> set[int]:
    mine = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == os.getpid():
            mine.add(int(stat.parent.name))
    return mine


ORPHANER = """
import asyncio, sys
from pathlib import Path
from nearcast.fleet.servers import Server, ServerSpec

async def main():
    servers = [await Server.start(ServerSpec(kind, kind), Path(sys.argv[1])) for kind in ("nats", "redis")]
    print(*(server.pid for server in servers), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_servers_do_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHANER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        parent.kill()
        parent.wait()
    wait_until(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "kafka"}, "'kafka' is not a kind of server"),
        ({"name": "../b1"}, "child name '../b1'"),
        ({"kind": REDIS, "jetstream": True}, "jetstream is NATS's"),
        ({"user": "alice"}, "has no password"),
        ({"user": "a b", "password": "x"}, "user 'a b' has a space"),
        ({"tls": Tls()}, "tls needs the server's cert_file and key_file"),
        ({"port": 70000}, "port 70000"),
    ],
)
def test_a_spec_that_cannot_be_used_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ServerSpec(**({"kind": NATS, "name": "b1"} | wrong))  # type: ignore[arg-type]  # wrong on purpose
