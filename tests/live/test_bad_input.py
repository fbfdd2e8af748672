"""What is wrong is told to who did it, and to nobody else: on a real fleet, beside a channel that goes on."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nearcast.client import open_client
from nearcast.client.channel_subscription import ChannelSubscription
from nearcast.client.client import Client
from nearcast.domain.channel import Missed
from nearcast.domain.errors import ChannelError
from nearcast.transport.config import load_config
from tests.live.conftest import Fleet, Result
from tests.live.test_pipeline import SPARK, held, started

FIRES = "SELECT r.id FROM reports r WHERE is_new(r) AND r.kind = :kind"
LIMIT_S = 600


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), "--sites", "1")
    try:
        fleet.until_well()
        yield fleet
    finally:
        fleet.stop()


async def told(fleet: Fleet, *arguments: str) -> Result:
    """What a command that starts Spark says."""
    process = fleet.start(*arguments, *SPARK)
    out, err = await asyncio.to_thread(process.communicate, timeout=LIMIT_S)
    return Result(process.returncode, out, err)


class Bystander:
    """Follows `fires`, and is to notice nothing."""

    def __init__(self, subscription: ChannelSubscription, folder: Path) -> None:
        self._subscription = subscription
        self._folder = folder
        self._sent = 0

    async def must_go_on(self, *lines: str) -> None:
        """It hears of the next fire, whatever stands beside that in the same file."""
        self._sent += 1
        record = json.dumps({"id": self._sent, "kind": "fire"})
        partial = self._folder / f".{self._sent}"
        partial.write_text("\n".join([*lines, record, ""]))
        partial.rename(self._folder / f"{self._sent}.jsonl")
        assert [dict(row) for row in (await anext(aiter(self._subscription))).rows] == [{"id": self._sent}]


@asynccontextmanager
async def running(fleet: Fleet, folder: Path) -> AsyncIterator[tuple[Client, Bystander]]:
    process = await asyncio.to_thread(started, fleet)
    try:
        async with open_client(fleet.config) as client:
            subscription = await client.subscribe_channel("fires", {"kind": "fire"}, timeout_s=LIMIT_S)
            yield client, Bystander(subscription, folder)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, (out, err)


@pytest.mark.slow
@pytest.mark.timeout(2 * LIMIT_S)
async def test_bad_input_is_told_to_who_gave_it_and_nothing_else_is_disturbed(fleet: Fleet, tmp_path: Path) -> None:
    assert fleet.run("dataset", "create", "reports", "--schema", "id INT NOT NULL, kind STRING").code == 0
    assert fleet.run("feed", "create", "reports", "--from", f"file:{tmp_path}").code == 0
    create = ("channel", "create")
    fires = ("--param", "kind STRING", "--continuous")
    assert (await told(fleet, *create, "fires", "--query", FIRES, *fires)).code == 0
    async with asyncio.timeout(2 * LIMIT_S), running(fleet, tmp_path) as (client, bystander):
        await bystander.must_go_on()

        # Malformed SQL
        refused = await told(fleet, *create, "bad", "--query", FIRES.replace("= :kind", "== = :kind"), *fires)
        assert refused.code == 1
        assert "channel bad: line 1, column 58: [PARSE_SYNTAX_ERROR]" in refused.err
        await bystander.must_go_on()

        # An unknown column
        refused = await told(fleet, *create, "bad", "--query", FIRES.replace("r.kind", "r.kin"), *fires)
        assert refused.code == 1
        assert "channel bad: line 1, column 48: [UNRESOLVED_COLUMN" in refused.err
        await bystander.must_go_on()

        # A parameter of a wrong type: where it is declared, and where a value is given
        refused = fleet.run(*create, "bad", "--query", FIRES, "--param", "kind STRNG", "--continuous")
        assert refused.code != 0
        assert "STRNG" in refused.err
        with pytest.raises(ChannelError, match="channel fires: parameter 'kind' must be STRING, got 7"):
            await client.subscribe_channel("fires", {"kind": 7})
        with pytest.raises(ChannelError, match="channel fires: no parameter 'knd'; it has kind"):
            await client.subscribe_channel("fires", {"knd": "fire"})
        assert [each["channel"] for each in fleet.run("channel", "list", "--json").json] == ["fires"]
        await bystander.must_go_on()

        # Records that do not fit, beside one that does
        broken = ['{"id": "seven", "kind": "fire"}', '{"kind": "fire"}', "{broken"]
        await bystander.must_go_on(*broken)
        _, records, rejected = await held(load_config(fleet.config), "reports")
        assert [each["id"] for each in records] == [1, 2, 3, 4, 5]
        assert sorted(str(each["raw"]) for each in rejected) == broken
        assert all(each["reason"] for each in rejected)
        assert fleet.run("dataset", "show", "reports", "--json").json["rejected"] == 3

        # A channel that is dropped: who follows is told, who comes is told, and one of the same name begins anew
        query = ("--query", FIRES.replace(":kind", "'fire' AND :all"), "--param", "all BOOLEAN", "--continuous")
        assert (await told(fleet, *create, "all_fires", *query)).code == 0
        follower = await client.subscribe_channel("all_fires", {"all": True}, timeout_s=LIMIT_S)
        await bystander.must_go_on()
        assert [dict(row) for row in (await anext(aiter(follower))).rows] == [{"id": 6}]
        position = follower.position
        assert fleet.run("channel", "drop", "all_fires").code == 0
        with pytest.raises(ChannelError, match="channel all_fires was dropped"):
            await anext(aiter(follower))
        with pytest.raises(ChannelError, match="no channel 'all_fires'; channels are fires"):
            await client.subscribe_channel("all_fires", {"all": True})
        await bystander.must_go_on()
        assert (await told(fleet, *create, "all_fires", *query)).code == 0
        missed: list[Missed] = []
        follower = await client.subscribe_channel(
            "all_fires", {"all": True}, after=position, on_missed=missed.append, timeout_s=LIMIT_S
        )
        await bystander.must_go_on()
        assert [dict(row) for row in (await anext(aiter(follower))).rows] == [{"id": 8}], "not taken for an old one"
        assert len(missed) == 1, "that there was another channel in between is told"
