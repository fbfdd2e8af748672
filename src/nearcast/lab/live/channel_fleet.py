"""One broker, its agent, and a pipeline with one channel, all as processes of their own; and followers of the channel.

    SELECT r.batch, r.area, r.id, r.text FROM reports r WHERE is_new(r) AND r.area = :area

The channel runs as data arrives. A batch of reports is a file that a feed takes in whole: one commit, and so one
execution, in which every area has the same number of rows.
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from nearcast.agent.counters import Counters, counters_of
from nearcast.client import open_client
from nearcast.domain.channel import Channel, ChannelSpec, Parameter
from nearcast.domain.dataset import Dataset, Feed
from nearcast.domain.errors import FleetError
from nearcast.domain.execution import Execution
from nearcast.domain.schema import parse_schema
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.application import create_channels, create_datasets, pipeline_command
from nearcast.lab.live.followers import AREA, FollowersSpec, PartySpec, Seen
from nearcast.lab.live.led import until_led
from nearcast.lab.live.tree import below, memory_bytes, precise_s, processor_s
from nearcast.pipeline.progress import folder_of, progress_of
from nearcast.pipeline.results import Results
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.store.store import Store
from nearcast.transport.access import Role
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import Config, load_config

BROKER = "b1"
CHANNEL = "nearby"
QUERY = "SELECT r.batch, r.area, r.id, r.text FROM reports r WHERE is_new(r) AND r.area = :area"
MASTER = "local[2]"
_REPORTS = Dataset("reports", "reports", parse_schema("batch INT, area INT, id INT, text STRING"))
_SPEC = ChannelSpec(CHANNEL, QUERY, (Parameter.parse(f"{AREA} INT"),))
_REGISTER_S = 1200.0
_LOOK_S = 0.05
_END_S = 60.0


class Used(NamedTuple):
    """Counters at one moment. Bytes are of the broker, by its own word."""

    at_s: float
    in_bytes: int
    out_bytes: int
    broker_s: float
    agent_s: float
    pipeline_s: float

    def since(self, before: "Used") -> "Used":
        return Used(
            self.at_s - before.at_s,
            self.in_bytes - before.in_bytes,
            self.out_bytes - before.out_bytes,
            self.broker_s - before.broker_s,
            self.agent_s - before.agent_s,
            self.pipeline_s - before.pipeline_s,
        )


class Memory(NamedTuple):
    broker_bytes: int
    agent_bytes: int
    pipeline_bytes: int
    spark_bytes: int


@dataclass(slots=True)
class Group:
    """Followers of one process."""

    command: Command
    spec: FollowersSpec

    def seen(self) -> Seen:
        return msgspec.msgpack.decode(Path(self.spec.seen).read_bytes(), type=Seen)


@dataclass(slots=True)
class ChannelFleet:
    """Everything that it started has ended when `running` is left."""

    folder: Path
    supervisor: Supervisor
    config: Config
    counters: Counters
    store: Store
    channel: Channel
    batch: int = 0  # the next one
    groups: dict[str, Group] = field(default_factory=dict)
    _wrong: int = 0  # of those who have left

    @classmethod
    @asynccontextmanager
    async def running(cls, kind: str, lease_s: float, heard: Callable[[str], None]) -> AsyncIterator[Self]:
        with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as name:
            folder, spec = Path(name), LocalSpec(sites=1, kind=kind, coordinators=1, timing={"lease_s": lease_s})
            async with Supervisor(folder) as supervisor:
                heard("servers and Spark start")
                config = load_config(await launch(supervisor, spec))
                await until_led(config, config.brokers)
                (folder / "in").mkdir()
                feed = Feed(_REPORTS.name, _REPORTS.id, f"file:{folder / 'in'}", _REPORTS.name)
                counters = counters_of(config.acting(Role.AGENT).brokers[BROKER], agent="lab", clock=SystemClock())
                assert counters is not None
                async with pipeline_store_of(config) as store:
                    tables = await create_datasets(store, config, [_REPORTS], [feed])
                    (channel,) = await create_channels(store, [_SPEC], tables, MASTER)
                    await supervisor.start(pipeline_command(config, MASTER))
                    fleet = cls(folder, supervisor, config, counters, store, channel)
                    try:
                        yield fleet
                    finally:
                        await asyncio.gather(*(each.command.kill() for each in fleet.groups.values()))
                        await counters.close()

    # Followers

    async def follow(
        self, name: str, *, areas: int, rows: int, clients: Sequence[int] = (), parties: Sequence[PartySpec] = ()
    ) -> Group:
        """Returns when they are registered."""
        seen, file = self.folder / f"{name}.seen", self.folder / f"{name}.json"
        spec = FollowersSpec(
            name,
            str(self.config.path),
            str(seen),
            CHANNEL,
            BROKER,
            areas,
            rows,
            self.batch,
            tuple(clients),
            tuple(parties),
        )
        file.write_bytes(msgspec.json.encode(spec))
        argv = (sys.executable, "-m", "nearcast.lab.live.followers", str(file))
        command = await Command.start(CommandSpec(name, "clients", argv, start_s=_REGISTER_S), self.folder)
        self.groups[name] = group = Group(command, spec)
        await _until(seen.exists, f"{name} says what it has seen")
        return group

    async def leave(self, *names: str) -> None:
        await asyncio.gather(*(self.groups[name].command.stop(_END_S) for name in names))
        for name in names:
            self._wrong += self.groups.pop(name).seen().wrong

    @property
    def followers(self) -> int:
        return sum(each.spec.followers for each in self.groups.values())

    @property
    def wrong(self) -> int:
        """Notifications that were not the next one, or not what was asked for, of all who ever followed."""
        return self._wrong + sum(each.seen().wrong for each in self.groups.values())

    @property
    def connections(self) -> int:
        return sum(len(each.spec.clients) + len(each.spec.parties) for each in self.groups.values())

    async def mustered(self) -> dict[str, int]:
        """By the agent's own word: how many follow each key."""
        async with open_client(self.config) as client:
            return await client.count_followers(CHANNEL, BROKER, timeout_s=_END_S)

    async def until_nobody_renews(self, for_s: float) -> None:
        """Returns when no renewal is due for so long; or when a whole round of renewals has passed without that."""
        until_s = time.monotonic() + self.config.timing.follow_s + for_s
        while time.monotonic() < until_s:
            if min(each.seen().renews_s for each in self.groups.values()) >= time.time() + for_s:
                return
            await asyncio.sleep(_LOOK_S)

    # Executions

    def feed(self, areas: int, rows: int, text_bytes: int, seed: int) -> int:
        """One batch, with rows for each of so many areas. Which one it was."""
        batch, rng = self.batch, random.Random(seed * 1_000_003 + self.batch)
        lines = [
            json.dumps({"batch": batch, "area": area, "id": number, "text": rng.randbytes(text_bytes // 2).hex()})
            for area in range(areas)
            for number in range(rows)
        ]
        partial = self.folder / "in" / f".{batch}"
        partial.write_text("\n".join(lines))
        partial.rename(self.folder / "in" / f"{batch:06d}.jsonl")
        self.batch += 1
        return batch

    async def until_delivered(self, batch: int, timeout_s: float) -> bool:
        """Whether every follower has it in time."""
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            if all(each.seen().got.get(batch, (0,))[0] == each.spec.followers for each in self.groups.values()):
                return True
            self._must_live()
            await asyncio.sleep(_LOOK_S)
        return False

    def delivered(self, batch: int) -> tuple[int, float, float]:
        """To how many, when to the first, and when to the last."""
        found = [seen for each in self.groups.values() if (seen := each.seen().got.get(batch))]
        if not found:
            return 0, 0.0, 0.0
        return sum(each[0] for each in found), min(each[1] for each in found), max(each[2] for each in found)

    async def executions(self, after: int) -> tuple[Execution, ...]:
        progress = await progress_of(self.store, self.channel)
        if progress.failures:
            raise FleetError(f"an execution failed: {progress.failures[-1].reason}")
        return tuple(each for each in progress.recent if each.number > after)

    def keys_of(self, execution: Execution) -> set[str]:
        """Those that have rows, by the committed files."""
        return {*Results(folder_of(self.config.tables, self.channel)).keys(execution)}

    # What is used

    async def used(self) -> Used:
        totals = await self.counters.totals()
        assert totals.in_bytes is not None
        broker, agent = (precise_s(self.supervisor.child(name).pid) for name in (BROKER, f"agent-{BROKER}"))
        return Used(time.time(), totals.in_bytes, totals.out_bytes, broker, agent, processor_s(self._pids("pipeline")))

    def memory(self) -> Memory:
        pipeline, *spark = self._pids("pipeline")
        broker, agent = (memory_bytes(self._pids(name)) for name in (BROKER, f"agent-{BROKER}"))
        return Memory(broker, agent, memory_bytes((pipeline,)), memory_bytes(tuple(spark)))

    def _pids(self, child: str) -> tuple[int, ...]:
        return below(self.supervisor.child(child).pid)

    def _must_live(self) -> None:
        for each in self.groups.values():
            if not each.command.running:
                raise each.command.failure("ended")


async def _until(reached: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    until_s = time.monotonic() + timeout_s
    while not reached():
        if time.monotonic() > until_s:
            raise FleetError(f"not within {timeout_s:g} s: {what}")
        await asyncio.sleep(_LOOK_S)
