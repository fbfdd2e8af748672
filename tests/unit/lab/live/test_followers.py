"""Followers that share a connection: each with a name, a lease and a subscription of its own."""

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import msgspec

from nearcast.brokers.link import Link, OnState, Receive
from nearcast.control.channel_agent import ChannelAgent, Publish, TellFollower, TellPipeline
from nearcast.control.instructions import Instruction
from nearcast.control.timing import Timing
from nearcast.domain.channel import Subscription
from nearcast.fleet.commands import Command
from nearcast.lab.live.channel_fleet import Group
from nearcast.lab.live.followers import FollowersSpec, Ledger, Party, PartySpec, Row
from nearcast.transport.config import Config
from nearcast.transport.endpoint import Endpoint
from nearcast.wire.channels import Follow, Known, Notice, Result, Unfollow, Wanted, channel_subject
from nearcast.wire.control import client_subject, seal, unseal
from nearcast.wire.dialect import Dialect

AREAS, EACH = 6, 4
DIALECT = Dialect(b"k" * 32)
TIMING = Timing(lease_s=0.4)
ASKED = [Subscription("nearby", (("area", area),)) for area in range(AREAS)]
SPEC = FollowersSpec(
    "some", "", "", "nearby", "b1", AREAS, 2, 7, parties=(PartySpec(0, EACH), PartySpec(4, EACH), PartySpec(1, EACH))
)


class Broker:
    """With an agent, and a pipeline that knows every key at once. Every subscriber is sent its own copy."""

    def __init__(self) -> None:
        self.agent = ChannelAgent("b1", 1, TIMING)
        self.heard: dict[str, list[Receive]] = {}
        self.sent = 0

    async def connect(self, broker: str, on_state: OnState) -> Link:  # noqa: ARG002  # as `Connect` names them
        return cast("Link", _Link(self))

    def deliver(self, subject: str, data: bytes) -> None:
        for receive in self.heard.get(subject, []):
            self.sent += 1
            asyncio.get_running_loop().call_soon(receive, data)

    def publish(self, data: bytes) -> None:
        message = unseal(data, DIALECT)
        assert isinstance(message, Follow | Unfollow)
        now = time.monotonic()
        self._do(self.agent.follow(message, now) if isinstance(message, Follow) else self.agent.unfollow(message, now))

    def execute(self, execution: int, previous: int, rows: Callable[[int], list[dict[str, int]]]) -> None:
        for area, each in enumerate(ASKED):
            result = Result(execution, previous, json.dumps(rows(area)).encode())
            self._do([Publish(Notice(each.key, result))])

    def _do(self, instructions: list[Instruction]) -> None:
        for each in instructions:
            match each:
                case TellFollower(client, message):
                    self.deliver(client_subject(client), seal(message, DIALECT))
                case Publish(notice):
                    self.deliver(channel_subject(notice.key), seal(notice, DIALECT))
                case TellPipeline(Wanted() as said):
                    begin = tuple((want.subscription.key, 10) for want in said.add)
                    self._do(self.agent.known(Known(said.session, said.number, said.number, begin), time.monotonic()))
                case _:
                    raise AssertionError(each)


class _Link:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topics: set[str] = set()

    async def subscribe(self, topic: str, receive: Receive) -> None:
        assert topic not in self._topics, "a connection has each subject once"
        self._topics.add(topic)
        self._broker.heard.setdefault(topic, []).append(receive)

    def publish(self, _topic: str, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._broker.publish, data)

    async def flush(self) -> None:
        await asyncio.sleep(0)

    async def close(self) -> None:
        await asyncio.sleep(0)


def run(test: Callable[[Broker, list[Party], Ledger], Awaitable[None]]) -> None:
    """With all followers registered."""

    async def main() -> None:
        endpoint = Endpoint("nats", "127.0.0.1", 1)
        config = Config("fleet", DIALECT, endpoint, {}, {}, TIMING, Path("nearcast.toml"))
        broker, ledger = Broker(), Ledger(SPEC)
        parties = [Party(number, config, SPEC, ledger) for number in range(len(SPEC.parties))]
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            for party in parties:
                await party.use(broker.connect)
                tasks.create_task(party.register(ASKED))
        assert ledger.seen.registered == SPEC.followers
        await test(broker, parties, ledger)

    asyncio.run(main())


def rows_of(batch: int) -> Callable[[int], list[dict[str, int]]]:
    return lambda area: [{"batch": batch, "area": area, "id": number} for number in range(2)]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_each_is_known_to_the_agent_by_its_name_and_sent_its_own_copy() -> None:
    async def test(broker: Broker, _parties: list[Party], ledger: Ledger) -> None:
        followers = [client for each in broker.agent.keys.values() for client in each.followers]
        assert len({*followers}) == len(followers) == SPEC.followers
        before = broker.sent
        broker.execute(11, 10, rows_of(7))
        await settle()
        assert broker.sent == before + SPEC.followers
        assert (ledger.seen.got[7][0], ledger.seen.wrong) == (SPEC.followers, 0)

    run(test)


def test_what_is_not_next_or_not_what_was_asked_for_is_told() -> None:
    async def test(broker: Broker, _parties: list[Party], ledger: Ledger) -> None:
        broker.execute(11, 10, rows_of(8))
        await settle()
        assert ledger.seen.wrong == SPEC.followers, "batch 7 is missing"
        broker.execute(12, 11, lambda area: rows_of(7)(area + 1))
        await settle()
        assert ledger.seen.wrong == 2 * SPEC.followers, "another's"
        broker.execute(13, 12, lambda area: rows_of(7)(area)[:1])
        await settle()
        assert (ledger.seen.wrong, ledger.seen.got) == (3 * SPEC.followers, {}), "a row is missing"

    run(test)


def test_they_renew_as_the_protocol_demands_and_leave_nothing_behind() -> None:
    async def test(broker: Broker, parties: list[Party], ledger: Ledger) -> None:
        began_s, said = time.monotonic(), ledger.seen.said
        async with asyncio.timeout(10):
            while ledger.seen.said < said + 2 * SPEC.followers:
                for party in parties:
                    party.tick(time.monotonic())
                await asyncio.sleep(0.01)
        assert time.monotonic() >= began_s + 1.5 * TIMING.follow_s, "no more often than that"
        assert len(broker.agent.keys) == AREAS
        for party in parties:
            await party.leave()
        await settle()
        assert not broker.agent.keys

    run(test)


def test_a_follower_is_due_the_batch_after_those_that_it_took() -> None:
    ledger = Ledger(SPEC)
    both = [Row(batch, 3) for batch in (8, 7) for _ in range(SPEC.rows)]
    assert ledger.took(7, 3, both) == 9, "one execution may have two batches"
    assert ledger.took(9, 3, [Row(8, 3)] * 2) == 9
    assert ledger.seen.wrong == 1


async def test_what_is_written_down_can_be_read_when_nobody_is_left_to_renew(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(SPEC, seen=str(tmp_path / "some.seen"))
    writing = asyncio.create_task(Ledger(spec).write(lambda: math.inf))
    await asyncio.sleep(0)  # the first time, it is written at once
    writing.cancel()
    assert Group(cast("Command", None), spec).seen().renews_s == math.inf
