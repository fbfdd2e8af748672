"""Servers on demand: started and ended by the supervisor of a fleet, on orders from another process."""

import asyncio
from pathlib import Path

import pytest

from nearcast.domain.errors import FleetError
from nearcast.fleet.local import LocalSpec, launch, renting_for
from nearcast.fleet.rental import LocalProvisioner
from nearcast.fleet.supervisor import Supervisor
from nearcast.transport.config import load_config
from tests.fleet.test_supervisor import QUICK, script, until, within


def running(fleet: Supervisor) -> list[str]:
    return [child.name for child in fleet.status.children if child.state == "running"]


def test_a_server_is_rented_with_its_agent_and_released(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Supervisor(tmp_path) as fleet:
            spec = LocalSpec(sites=1, kind="redis", coordinators=0, rents=True, out_bytes_per_s=5e6)
            config = load_config(await launch(fleet, spec))
            assert config.provisioner is not None
            async with renting_for(fleet, spec):
                provisioner = LocalProvisioner(config.provisioner)
                before = running(fleet)
                rented = await provisioner.rent("more")
                assert (rented.url, rented.out_bytes_per_s) == (fleet.child("more").url, 5e6)
                assert running(fleet) == [*before, "more", "agent-more"]
                assert await provisioner.rent("more") == rented, "it is there: another coordinator asks again"
                await provisioner.release("more")
                assert running(fleet) == before
                await provisioner.release("more")
                with pytest.raises(FleetError, match="rent 'control': control: there is a child of this name already"):
                    await provisioner.rent("control")
                assert running(fleet) == before

    within(60, scenario())


def test_a_server_whose_agent_does_not_start_is_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Supervisor(tmp_path) as fleet:
            spec = LocalSpec(sites=1, kind="redis", coordinators=0, rents=True)
            config = load_config(await launch(fleet, spec))
            assert config.provisioner is not None
            config.path.write_text("key_file = 'nothing'")
            async with renting_for(fleet, spec):
                before = running(fleet)
                with pytest.raises(FleetError, match="agent-more: ended with code 1"):
                    await LocalProvisioner(config.provisioner).rent("more")
                assert running(fleet) == before

    within(60, scenario())


def test_when_nobody_answers_it_is_said(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(FleetError, match="the supervisor does not answer at"):
            await LocalProvisioner(tmp_path / "no.sock").rent("more")

    within(10, scenario())


def test_a_child_that_is_not_vital_is_given_up_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        said: list[str] = []
        async with Supervisor(tmp_path / "state", say=said.append, patience=QUICK) as fleet:
            await fleet.start(script("other"))
            once = tmp_path / "once"
            text = (
                f"import os, sys, time\nif os.path.exists({str(once)!r}): sys.exit('cannot work')\n"
                f"open({str(once)!r}, 'w').close()\nprint('{{\"ready\": true}}')\ntime.sleep(0.1)"
            )
            await fleet.start(script("worker", text), vital=False)
            await until(lambda: any(line.startswith("worker is given up") for line in said))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await fleet.keep()
            assert running(fleet) == ["other"]
            await fleet.retire("worker")
            assert [child.name for child in fleet.status.children] == ["other"]

    within(20, scenario())
