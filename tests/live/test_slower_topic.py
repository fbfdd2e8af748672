"""A processed topic turns slow on real servers: within three intervals they are parted, and it is told why."""

import asyncio
import json
import os
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from nearcast.client import Client, open_client
from nearcast.domain.load import Resources
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.led import until_led
from nearcast.sim.check import check
from nearcast.sim.history import History
from nearcast.sim.recorder import Recorder
from nearcast.transport.config import Config, load_config
from tests.live.asking import asker, until
from tests.live.conftest import on_nats

EVERY_S = 5.0
PROMISE_MS = 1500.0
RATES_HZ = {"slow": 2.0, "same": 4.0}
TAKE_S = {"slow": 0.1, "same": 0.12}  # two thirds of one worker; long enough that a busy machine's delays matter little
THEN_S = 0.35  # a sixth more than one worker can do
LEASE_S = 30.0  # half of it a message may wait to be processed; then it would be dropped, and that reported
MODULE = "slowprocessors"
PROCESSORS = """
import json
import pathlib
import time

TAKE = pathlib.Path(__file__).with_name("take.json")


def wait(message, spool):
    time.sleep(json.loads(TAKE.read_text())[message.topic])
    return message.payload
"""


def say(folder: Path, take_s: dict[str, float]) -> None:
    """A processor that reads meanwhile sees all of it or nothing."""
    made = folder / "take.new"
    made.write_text(json.dumps(take_s))
    made.replace(folder / "take.json")


async def send(recorder: Recorder, sender: Client, topic: str, over: asyncio.Event) -> None:
    begun_s, sent = time.monotonic(), 0
    while not over.is_set():
        await recorder.publish(sender, topic, bytes(100))
        sent += 1
        await asyncio.sleep(max(0.0, begun_s + sent / RATES_HZ[topic] - time.monotonic()))


async def play(config: Config, folder: Path, recorder: Recorder) -> None:
    ask, topics = asker(config), tuple(RATES_HZ)
    for topic in topics:
        await ask("topic", "move", topic, "b1")
        await ask("topic", "set", topic, "--processor", f"{MODULE}:wait", "--limit", "5000")
        await ask("topic", "set", topic, "--slo", f"p90:{PROMISE_MS:g}ms")
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(open_client(config, name="receiver"))
        for topic in topics:
            await recorder.subscribe(receiver, topic)
        over, sending = asyncio.Event(), []
        for topic in topics:
            sender = await stack.enter_async_context(open_client(config, name=f"sender-{topic}"))
            sending.append(asyncio.create_task(send(recorder, sender, topic, over)))
        show = {topic: partial(ask, "topic", "show", topic) for topic in topics}
        for topic in topics:
            await until(30.0, show[topic], lambda found: found["kept"] and found["measured_ms"] is not None)
        homes = [(await show[topic]())["brokers"] for topic in topics]
        assert homes[0] == homes[1], "before, one broker keeps both promises"

        say(folder, {**TAKE_S, "slow": THEN_S})
        slow_at_s = time.time()

        async def apart() -> dict[str, list[str]]:
            return {topic: (await show[topic]())["brokers"] for topic in topics}

        await until(60.0, apart, lambda found: found["slow"] != found["same"])
        decisions = [found[0] for topic in topics if (found := await ask("topic", "explain", topic))]
        decision = max((each for each in decisions if each["policy"] == "ktcp-ffd"), key=lambda each: each["at_s"])
        assert decision["at_s"] + decision["told_s"] - slow_at_s < 3 * EVERY_S
        assert decision["was_brokers"] == homes[0]
        text = await ask("topic", "explain", decision["topic"], as_json=False)
        assert f"{PROMISE_MS:.0f} ms are promised" in text
        assert "90 of 100 messages are expected within" in text
        for topic in topics:
            await until(60.0, show[topic], lambda found: found["kept"])
        over.set()
        await asyncio.gather(*sending)
        await asyncio.sleep(3.0)
        recorder.history.finished(time.monotonic())


async def turn_slow(folder: Path, kind: str) -> None:
    recorder = Recorder(History(), time.monotonic)
    async with Supervisor(folder / ".nearcast") as supervisor:
        spec = LocalSpec(
            sites=2,
            kind=kind,
            most=Resources(cores=1.0),
            timing={"lease_s": LEASE_S},
            rebalance={"policy": "ktcp-ffd", "every_s": EVERY_S},
            web=True,
            metrics=False,
        )
        config = load_config(await launch(supervisor, spec))
        await until_led(config, ("b1", "b2"))
        await play(config, folder, recorder)
    result = check(recorder.history, grace_s=5.0)
    assert result.clean, result.counts()


@on_nats
def test_a_topic_that_turns_slow_is_parted_from_its_neighbour_within_three_intervals_and_it_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / f"{MODULE}.py").write_text(PROCESSORS)
    say(tmp_path, TAKE_S)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    asyncio.run(turn_slow(tmp_path, kind))
