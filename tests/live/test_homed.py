"""A homed topic on real servers: homes change under traffic, one delegates, and processors look back on all homes."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.client import Client, open_client
from nearcast.sim.check import check
from nearcast.sim.history import History
from nearcast.sim.recorder import Recorder
from tests.live.conftest import Fleet, fleet_with, until

PROCESSORS = """
def marked(message, spool):
    return b"%s after %s" % (message.payload, b"".join(each.payload for each in spool))
"""
HOMED = ("--strategy", "homed", "b1", "b2", "b3")
IN_STEP_S = 1.0  # copies are put together for 20 ms, and nothing is far here; the rest is for a busy machine
EVERY_S = 0.05


@pytest.fixture
def fleet(tmp_path: Path, kind: str) -> Iterator[Fleet]:
    with fleet_with("testhomed", PROCESSORS, tmp_path, kind) as fleet:
        yield fleet


@pytest.mark.slow
def test_homes_change_and_delegate_under_traffic_and_every_spool_has_what_was_published_anywhere(fleet: Fleet) -> None:
    fleet.ok("topic", "set", "t", "--processor", "testhomed:marked", "--spool", "2")
    fleet.ok("topic", "move", "t", *HOMED)
    refused = fleet.run("topic", "move", "t", *HOMED, "--delegate", "b1", "--cloud", "b9")
    assert refused.code == 2
    assert "'b9' is part of a delegation, but not of the route" in refused.err
    asyncio.run(_live(fleet))


async def _live(fleet: Fleet) -> None:
    history, heard = History(), list[bytes]()
    recorder = Recorder(history, time.time)
    async with (
        open_client(fleet.config) as one,
        open_client(fleet.config) as other,
        open_client(fleet.config) as receiver,
    ):
        for client, home in ((one, "b1"), (other, "b2"), (receiver, "b3")):
            client.set_home(home)
        await recorder.subscribe(receiver, "t", also=lambda _number, message: heard.append(message.payload))
        await _look_back(recorder, one, other, heard)
        await _change(fleet, recorder, one, receiver)
        assert one.publication("t").machine.targets == ("b3",)  # at home at b1, which delegates
        history.finished(time.time())
    result = check(history, grace_s=5.0)
    assert result.delivered == result.published > 50
    assert result.clean, result.counts()


async def _look_back(recorder: Recorder, one: Client, other: Client, heard: list[bytes]) -> None:
    """What is published at b1 is seen at b2, and the other way round."""
    for number, (client, payload) in enumerate(((one, b"a"), (other, b"b"), (one, b"c")), 1):
        await recorder.publish(client, "t", payload)
        await until(30.0, lambda: len(heard) == number, f"heard only {heard}")  # noqa: B023  # awaited here
        await asyncio.sleep(IN_STEP_S)
    assert heard == [b"a after ", b"b after a", b"c after ab"]


async def _change(fleet: Fleet, recorder: Recorder, sender: Client, receiver: Client) -> None:
    over = asyncio.Event()

    async def send() -> None:
        while not over.is_set():
            await recorder.publish(sender, "t", b"m")
            await asyncio.sleep(EVERY_S)

    sending = asyncio.create_task(send())
    for mine, theirs in (("b2", "b1"), ("b3", "b2"), ("b1", "b3")):
        sender.set_home(mine)
        receiver.set_home(theirs)
        await asyncio.sleep(2.5)
    await asyncio.to_thread(fleet.ok, "topic", "move", "t", *HOMED, "--delegate", "b1", "--cloud", "b3")
    await until(20.0, lambda: sender.publication("t").machine.targets == ("b3",), "it publishes at home still")
    await asyncio.sleep(2.0)
    over.set()
    await sending
    await asyncio.sleep(3.0)
