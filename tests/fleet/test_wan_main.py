"""The WAN emulator as a process: started by a plan, told more by its control socket, the same after a restart."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from nearcast.domain.errors import ConfigError, FleetError
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.ports import free_port
from nearcast.fleet.probe import ask
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.fleet.shape import Shape
from nearcast.fleet.supervisor import Patience, Supervisor
from nearcast.fleet.wan_main import WanControl, WanLink, WanPlan
from nearcast.transport.endpoint import Endpoint


def within(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


def emulator(plan: WanPlan, where: Path) -> CommandSpec:
    file = where / "wan.json"
    plan.write(file)
    return CommandSpec("wan", "wan", (sys.executable, "-m", "nearcast.fleet.wan_main", str(file)))


def plan_for(server: Server, where: Path, delay_s: float) -> tuple[WanPlan, Endpoint]:
    link = WanLink("here", "b1", server.endpoint.url, free_port(), Shape(delay_s))
    return WanPlan((link,), str(where / "wan.sock")), Endpoint("nats", "127.0.0.1", link.port)


async def asking_s(at: Endpoint, pid: int) -> float:
    """Connecting until a PING is answered, with the server speaking first: six crossings."""
    started_s = time.monotonic()
    await ask(at, pid)
    return time.monotonic() - started_s


def test_orders_are_carried_out_when_they_return(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = await Server.start(ServerSpec("nats", "b1"), tmp_path)
        plan, at = plan_for(server, tmp_path, 0.02)
        wan = await Command.start(emulator(plan, tmp_path), tmp_path)
        try:
            control = WanControl(plan.control)
            assert await asking_s(at, server.pid) >= 6 * 0.02
            await control.shape("here", "b1", Shape(0.05, jitter_s=0.01, bytes_per_s=1e6))
            assert await control.state("here", "b1") == (Shape(0.05, 0.01, 1e6), "open")
            assert await asking_s(at, server.pid) >= 6 * 0.05
            await control.cut("here", "b1")
            with pytest.raises(ConnectionRefusedError):
                await ask(at, server.pid)
            await control.heal("here", "b1")
            await control.hold("here", "b1")
            asking = asyncio.create_task(ask(at, server.pid))
            assert not (await asyncio.wait([asking], timeout=0.5))[0]
            await control.heal("here", "b1")
            await asking
            with pytest.raises(ConfigError, match="no link from 'there' to 'b1'; links are here to b1"):
                await control.cut("there", "b1")
            await wan.stop()
            assert await wan.wait() == 0
            with pytest.raises(FleetError, match="the WAN emulator does not answer"):
                await control.cut("here", "b1")
        finally:
            await wan.kill()
            await server.kill()

    within(20, scenario())


def test_a_killed_emulator_is_back_at_the_same_ports(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Supervisor(tmp_path, patience=Patience(first_s=0.01)) as fleet:
            server = await fleet.start(ServerSpec("nats", "b1"))
            plan, at = plan_for(server, tmp_path, 0.01)
            wan = await fleet.start(emulator(plan, tmp_path))
            await ask(at, server.pid)
            os.kill(wan.pid, signal.SIGKILL)
            while True:
                try:
                    await ask(at, server.pid)
                except (OSError, EOFError):
                    await asyncio.sleep(0.01)
                else:
                    break
            assert await WanControl(plan.control).state("here", "b1") == (Shape(0.01), "open")

    within(20, scenario())


def test_what_it_cannot_do_it_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = await Server.start(ServerSpec("nats", "b1"), tmp_path)
        try:
            taken = WanLink("here", "b1", server.endpoint.url, server.endpoint.port, Shape(0.01))
            with pytest.raises(FleetError, match=f"port {server.endpoint.port} is taken"):
                await Command.start(emulator(WanPlan((taken,), str(tmp_path / "s")), tmp_path), tmp_path)
            spec = emulator(WanPlan((), str(tmp_path / "s")), tmp_path)
            (tmp_path / "wan.json").write_text('{"links": [{"site": 1}], "control": "s"}')
            with pytest.raises(FleetError, match=r"wan\.json: Expected `str`, got `int`"):
                await Command.start(spec, tmp_path)
        finally:
            await server.kill()

    within(20, scenario())
