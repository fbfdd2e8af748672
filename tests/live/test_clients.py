"""Clients on real servers: beside plain clients, without `await`, and across a rolling restart."""

import asyncio
from pathlib import Path

from nats.aio.msg import Msg

from nearcast.client import BlockingClient, open_client
from nearcast.domain.message import Message
from nearcast.transport.config import load_config
from tests.live.conftest import Fleet
from tests.live.plain import plain_nats, plain_redis

TOPIC = "shared"


def test_plain_clients_and_ours_share_a_topic(fleet: Fleet, kind: str) -> None:
    asyncio.run(share_a_topic(fleet.config, kind))


async def share_a_topic(path: Path, kind: str) -> None:
    config = load_config(path)
    home = config.brokers[config.ring.owner(TOPIC)].endpoint
    ours: asyncio.Queue[Message] = asyncio.Queue()
    theirs: asyncio.Queue[bytes] = asyncio.Queue()
    async with asyncio.timeout(30), open_client(config) as client:
        await client.subscribe(TOPIC, ours.put_nowait)
        if kind == "nats":
            plain = await plain_nats(home)

            async def took(message: Msg) -> None:
                theirs.put_nowait(message.data)

            await plain.subscribe(TOPIC, cb=took)
            await plain.flush()
            await plain.publish(TOPIC, b"from a plain client")
            await plain.flush()
            await client.publish(TOPIC, b"from ours")
            seen = [await ours.get(), await ours.get()]
            heard = [await theirs.get(), await theirs.get()]
            await plain.close()
        else:
            server = plain_redis(home)
            async with server.pubsub() as listener:
                await listener.subscribe(TOPIC)
                await server.publish(TOPIC, b"from a plain client")
                await client.publish(TOPIC, b"from ours")
                seen = [await ours.get(), await ours.get()]
                heard = []
                while len(heard) < 2:
                    message = await listener.get_message(ignore_subscribe_messages=True, timeout=5)
                    if message is not None:
                        heard.append(message["data"])
            await server.aclose()
    assert {(message.payload, message.sequenced) for message in seen} == {
        (b"from a plain client", False),
        (b"from ours", True),
    }
    assert b"from a plain client" in heard
    assert any(data.endswith(b"from ours") for data in heard)


def test_a_script_needs_no_await(fleet: Fleet) -> None:
    with BlockingClient(fleet.config) as sender, BlockingClient(fleet.config) as receiver:
        subscription = receiver.subscribe(TOPIC)
        for number in range(3):
            sender.publish(TOPIC, str(number).encode())
        assert [next(subscription).payload for _ in range(3)] == [b"0", b"1", b"2"]
        assert subscription.get(timeout_s=0.1) is None
        subscription.close()
        assert list(subscription) == []
