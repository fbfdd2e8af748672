"""What every test folder shares."""

import asyncio
import inspect
import os
import socket
import subprocess
from collections.abc import Iterator
from typing import NoReturn

import pytest
from hypothesis import settings

# The same examples on every machine, so that a red test is red for everybody; no deadline, because a loaded machine is
# not a failure.
settings.register_profile("nearcast", derandomize=True, deadline=None)
settings.load_profile("nearcast")


def pytest_addoption(parser: pytest.Parser) -> None:
    where = (
        "where Spark runs: here, on a master with two workers, or on a Connect server; the tests start and stop them"
    )
    parser.addoption("--master", choices=["local", "standalone", "connect"], default="local", help=where)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on a new event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="module")
def no_outside_world() -> Iterator[None]:
    """Fail what reaches for the network or another process.

    Sockets may still be made, because an event loop needs a pair of them; they may not be connected or bound.
    """

    def forbid(what: str) -> object:
        def refuse(*_args: object, **_kwargs: object) -> NoReturn:
            pytest.fail(
                f"{what} in a test of pure logic: use a fake, or move the test to contract, sim or e2e (under tests/)"
            )

        return refuse

    with pytest.MonkeyPatch.context() as patch:
        for method in ("connect", "connect_ex", "bind", "sendto"):
            patch.setattr(socket.socket, method, forbid(f"socket.{method}()"))
        patch.setattr(socket, "getaddrinfo", forbid("socket.getaddrinfo()"))
        patch.setattr(subprocess.Popen, "__init__", forbid("subprocess.Popen()"))
        for function in ("fork", "posix_spawn", "system"):
            patch.setattr(os, function, forbid(f"os.{function}()"))
        yield
