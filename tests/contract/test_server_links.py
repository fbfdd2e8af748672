"""What holds for links to real servers, beyond the contract: silence, slowness, refusals, other clients."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import nats
import pytest
import redis.asyncio
import uvloop

from nearcast.brokers import reconnecting, session
from nearcast.brokers.reconnecting import ReconnectingLink
from nearcast.domain.errors import LinkDown, MessageTooLarge
from nearcast.transport.endpoint import NATS, REDIS
from tests.contract.link_stages import ServerStage, on_server
from tests.contract.test_link import Party, settled, until

Run = Callable[[Callable[[ServerStage], Awaitable[None]]], None]


@pytest.fixture(params=[NATS, REDIS])
def on(request: pytest.FixtureRequest) -> Run:
    return lambda scenario: asyncio.run(on_server(request.param, scenario))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnecting, "KNOCK_S", 0.1)


def inside(party: Party) -> ReconnectingLink:
    assert isinstance(party.link, ReconnectingLink)
    return party.link


def reading(party: Party) -> asyncio.Transport:
    """What a test can stop from reading, as a process that is too slow would."""
    transport = inside(party)._session._transport  # type: ignore[union-attr]
    assert isinstance(transport, asyncio.Transport)
    return transport


def test_a_server_that_falls_silent_is_left_within_seconds(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        await stage.freeze_broker()
        frozen_s = time.monotonic()
        with pytest.raises(LinkDown, match="no answer within 3 s"):
            await party.link.flush()
        assert 2.0 < time.monotonic() - frozen_s < 6.0
        assert party.states == [False]
        await stage.thaw_broker()
        await party.wait_for_state(False, True)
        party.link.publish("t", b"1")
        await settled(party, party)
        assert party.got == [b"1"]

    on(scenario)


def test_a_server_that_only_listens_does_not_hold_up_who_connects(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        await stage.freeze_broker()
        started_s = time.monotonic()
        with pytest.raises(LinkDown, match=r"the link to 'b1': no answer within 2 s"):
            await stage.connector("party")(stage.broker, lambda _up: None)
        assert time.monotonic() - started_s < 4.0

    on(scenario)


@pytest.mark.usefixtures("impatient")
def test_who_was_stopped_itself_does_not_blame_the_server(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        await asyncio.sleep(0.3)
        for _ in range(5):
            time.sleep(0.5)  # noqa: ASYNC251  # The whole process stands still: that is the point.
            await asyncio.sleep(0.05)
        party.link.publish("t", b"1")
        await settled(party, party)
        assert (party.got, party.states) == ([b"1"], [])

    on(scenario)


@pytest.mark.usefixtures("impatient")
def test_a_quiet_link_stays_up(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        await asyncio.sleep(1.0)
        assert (party.link.up, party.states) == (True, [])

    on(scenario)


def test_what_is_still_unread_when_a_topic_is_left_is_received(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber", "t")
        transport = reading(subscriber)
        transport.pause_reading()
        for _ in range(100):
            publisher.link.publish("t", bytes(10_000))
        await publisher.link.flush()
        leaving = asyncio.create_task(subscriber.link.unsubscribe("t"))
        await asyncio.sleep(0.05)
        assert subscriber.got == []
        transport.resume_reading()
        await leaving
        assert len(subscriber.got) == 100

    on(scenario)


def test_a_subscriber_that_does_not_read_is_told_of_the_break(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        publisher, slow = await Party.join(stage, "publisher"), await Party.join(stage, "slow", "t")
        transport = reading(slow)
        if stage.server.kind == REDIS:  # Redis's own default. What the fleet sets takes longer to fill.
            async with redis.asyncio.Redis(port=stage.server.endpoint.port, host="127.0.0.1") as admin:
                await admin.config_set("client-output-buffer-limit", "pubsub 32mb 8mb 60")
        transport.pause_reading()
        for _ in range(12):
            for _ in range(10):
                publisher.link.publish("t", bytes(900_000))
            await publisher.link.flush()
        transport.resume_reading()
        await slow.wait_for_state(False, True)
        assert 0 < len(slow.got) < 120
        assert publisher.states == []
        log = stage.server.log.read_text()
        assert "Slow Consumer" in log or "output buffer limits" in log

    on(scenario)


def test_what_a_server_does_not_take_is_kept_only_so_far(on: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: ServerStage) -> None:
        monkeypatch.setattr(session, "MOST_UNSENT_BYTES", 1_000_000)
        party = await Party.join(stage, "party", "t")
        await stage.freeze_broker()
        for _ in range(100):
            party.link.publish("t", bytes(900_000))
        assert (party.link.up, party.states) == (True, []), "who publishes is not called back from within"
        await party.wait_for_state(False)
        with pytest.raises(LinkDown, match="the server does not keep up: more than 1000000 bytes could not be sent"):
            party.link.publish("t", b"1")
        await stage.thaw_broker()
        await party.wait_for_state(False, True)

    on(scenario)


def test_a_receiver_that_fails_does_not_stop_the_messages_after(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context["exception"]))
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber", "u")
        refused = ValueError("not this one")

        def receive(data: bytes) -> None:
            if data == b"1":
                raise refused
            subscriber.got.append(data)

        await subscriber.link.subscribe("t", receive)
        for topic, data in (("t", b"0"), ("t", b"1"), ("t", b"2"), ("u", b"3")):
            publisher.link.publish(topic, data)
        await settled(publisher, subscriber)
        assert subscriber.got == [b"0", b"2", b"3"]
        assert failures == [refused]
        assert subscriber.states == []

    on(scenario)


def test_an_owner_that_fails_when_told_of_a_break_still_gets_its_link_back(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        failures: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context["message"]))
        told: list[bool] = []

        def on_state(up: bool) -> None:
            told.append(up)
            raise ValueError(up)

        link = await stage.connector("party")(stage.broker, on_state)
        await stage.cut("party")
        await until(lambda: told == [False, True])
        assert link.up
        assert failures == [
            f"the owner of the link to 'b1' failed when told that it is {state}" for state in ("down", "up")
        ]

    on(scenario)


def test_what_cannot_be_a_topic_never_reaches_the_wire(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        for topic in ("", "a b", "t 0\r\n\r\nPUB t", "a.*", ">", "a..b", ".a"):
            with pytest.raises(ValueError, match="cannot be a topic"):
                party.link.publish(topic, b"1")
            with pytest.raises(ValueError, match="cannot be a topic"):
                await party.link.subscribe(topic, party.got.append)
        await settled(party, party)
        assert (party.got, party.states) == ([], [])

    on(scenario)


def test_nothing_of_the_library_runs_on_beside_a_link(on: Run) -> None:
    async def scenario(stage: ServerStage) -> None:
        await Party.join(stage, "party", "t")
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    on(scenario)


def test_a_break_is_logged_once_with_its_cause_and_nothing_as_an_error(
    on: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        await stage.stop_broker()
        await party.wait_for_state(False)
        await asyncio.sleep(0.3)
        await stage.start_broker()
        await party.wait_for_state(False, True)

    caplog.set_level(logging.INFO)
    on(scenario)
    assert [record.levelname for record in caplog.records if record.name != "asyncio"] == ["WARNING", "INFO"]
    assert "the link to 'b1' broke: " in caplog.text
    assert "the link to 'b1' is back" in caplog.text


def test_links_work_on_uvloop() -> None:
    async def scenario(stage: ServerStage) -> None:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber", "t")
        for data in (b"", bytes(900_000), b"1"):
            publisher.link.publish("t", data)
        await settled(publisher, subscriber)
        assert [len(data) for data in subscriber.got] == [0, 900_000, 1]
        await stage.cut("subscriber")
        await subscriber.wait_for_state(False, True)
        publisher.link.publish("t", b"2")
        await publisher.link.close()
        await until(lambda: subscriber.got[3:] == [b"2"])

    for kind in (NATS, REDIS):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(on_server(kind, scenario))


# NATS


def test_a_message_that_nats_would_not_take_is_refused_here() -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        with pytest.raises(MessageTooLarge, match="topic 't': 1048577 bytes; this server takes 1048576 at most"):
            party.link.publish("t", bytes(1_048_577))
        party.link.publish("t", bytes(1_048_576))
        await settled(party, party)
        assert [len(data) for data in party.got] == [1_048_576]
        assert party.states == []

    asyncio.run(on_server(NATS, scenario))


def test_what_nats_refuses_breaks_the_link_with_its_words() -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        inside(party)._session.write(b"NONSENSE\r\n")  # type: ignore[union-attr]
        with pytest.raises(LinkDown, match="the server said 'Unknown Protocol Operation'"):
            await party.link.flush()
        await party.wait_for_state(False, True)

    asyncio.run(on_server(NATS, scenario))


def test_a_plain_nats_client_and_a_link_hear_each_other() -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        plain = await nats.connect(stage.server.endpoint.url)
        heard = await plain.subscribe("t")
        await plain.flush()
        await plain.flush()
        await plain.publish("t", b"1")
        await plain.publish("t", b"2", headers={"a": "b"}, reply="somewhere")
        await plain.publish("t", b"3", reply="somewhere")
        await plain.flush()
        await plain.flush()
        party.link.publish("t", b"4")
        await settled(party, party)
        assert party.got == [b"1", b"2", b"3", b"4"]
        assert [(await heard.next_msg()).data for _ in range(4)] == party.got
        await plain.close()

    asyncio.run(on_server(NATS, scenario))


# Redis


def test_what_redis_refuses_breaks_the_link_with_its_words() -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        async with redis.asyncio.Redis(port=stage.server.endpoint.port, host="127.0.0.1") as admin:
            await admin.acl_setuser("default", reset_channels=True, channels=["t"], enabled=True, nopass=True)
            party.link.publish("u", b"1")
            with pytest.raises(LinkDown, match="the server said NOPERM"):
                await party.link.flush()
            await party.wait_for_state(False, True)
            with pytest.raises(LinkDown, match="the server said NOPERM"):
                await party.link.subscribe("u", party.got.append)
            await party.wait_for_state(False, True, False, True)
            party.link.publish("t", b"2")
            await settled(party, party)
            assert party.got == [b"2"]

    asyncio.run(on_server(REDIS, scenario))


def test_a_plain_redis_client_and_a_link_hear_each_other() -> None:
    async def scenario(stage: ServerStage) -> None:
        party = await Party.join(stage, "party", "t")
        async with redis.asyncio.Redis(port=stage.server.endpoint.port, host="127.0.0.1") as plain:
            assert "party" in [client["name"] for client in await plain.client_list()]
            async with plain.pubsub() as heard:
                await heard.subscribe("t")
                assert (await heard.get_message(timeout=5.0) or {})["type"] == "subscribe"
                await plain.publish("t", b"1")
                await party.link.flush()
                party.link.publish("t", b"2")
                await settled(party, party)
                assert party.got == [b"1", b"2"]
                assert [(await heard.get_message(timeout=5.0) or {})["data"] for _ in range(2)] == party.got

    asyncio.run(on_server(REDIS, scenario))
