"""The ban on sockets and subprocesses, which all of tests/unit and tests/property rely on."""

import asyncio
import os
import socket
import subprocess
import sys

import pytest


def test_a_unit_test_cannot_connect() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"socket\.getaddrinfo\(\) in a test of pure logic"):
        socket.create_connection(("localhost", 9))
    with socket.socket() as lonely, pytest.raises(pytest.fail.Exception, match=r"socket\.connect\(\)"):
        lonely.connect(("127.0.0.1", 9))


def test_a_unit_test_cannot_bind() -> None:
    with socket.socket() as unbound, pytest.raises(pytest.fail.Exception, match=r"socket\.bind\(\)"):
        unbound.bind(("127.0.0.1", 0))


def test_a_unit_test_cannot_start_a_process() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"subprocess\.Popen\(\)"):
        subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(pytest.fail.Exception, match=r"os\.fork\(\)"):
        os.fork()


async def test_an_async_test_runs_on_a_loop_of_its_own(tmp_path: object) -> None:
    assert tmp_path is not None
    assert asyncio.get_running_loop().is_running()
    await asyncio.sleep(0)
