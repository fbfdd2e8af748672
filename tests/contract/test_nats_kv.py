"""What the store on a NATS server does beyond the contract of stores: doors, limits, other programs, bad data."""

import asyncio
import logging
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import nats
import pytest

from nearcast.domain.errors import ConfigError, StoreDown, StoreError
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.store.nats_kv import NatsKvStore
from nearcast.store.store import ABSENT, MAX_VALUE_BYTES
from nearcast.transport.endpoint import NATS, REDIS, Endpoint, Tls
from nearcast.transport.nats_session import PATIENCE_S
from tests.contract.link_stages import stopped
from tests.contract.store_stages import until


@asynccontextmanager
async def running(state: Path, spec: ServerSpec | None = None) -> AsyncIterator[Server]:
    async with asyncio.timeout(60):
        server = await Server.start(spec or ServerSpec(NATS, "store", jetstream=True), state)
        try:
            yield server
        finally:
            server.resume()
            await server.kill()


@asynccontextmanager
async def opened(endpoint: Endpoint, name: str = "test") -> AsyncIterator[NatsKvStore]:
    store = NatsKvStore(endpoint, name=name)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


# Opening


async def test_many_open_it_at_once_and_all_find_the_same(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        stores = [NatsKvStore(server.endpoint, name=f"p{number}") for number in range(10)]
        await asyncio.gather(*(store.open() for store in stores))
        revision = await stores[0].put("k", b"1", ABSENT)
        entries = await asyncio.gather(*(store.get("k") for store in stores))
        assert {entry and entry.revision for entry in entries} == {revision}
        await asyncio.gather(*(store.close() for store in stores))


async def test_opening_again_leaves_what_is_there(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        async with opened(server.endpoint) as store:
            revision = await store.put("k", b"1", ABSENT)
            term = await store.acquire("leader", "one", 30.0)
        async with opened(server.endpoint) as store:
            entry = await store.get("k")
            assert entry is not None
            assert entry.revision == revision
            assert term == 1
            assert await store.acquire("leader", "other", 30.0) is None


async def test_without_a_server_it_says_so_and_can_be_opened_later(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        await server.kill()
        store = NatsKvStore(server.endpoint, name="test")
        where = re.escape(server.endpoint.url)
        with pytest.raises(StoreDown, match=rf"open: the store at {where} cannot be reached, .*Errno 111"):
            await store.open()
        with pytest.raises(StoreDown, match="closed"):
            await store.get("k")
        await server.restart()
        await store.open()
        assert await store.get("k") is None
        await store.close()


async def test_after_it_was_closed_nothing_is_answered_and_watches_end(tmp_path: Path) -> None:
    async with running(tmp_path) as server, opened(server.endpoint) as store:
        await store.put("k", b"1", ABSENT)
        async with aclosing(store.watch("")) as changes:
            await anext(changes)
            waiting = asyncio.create_task(anext(changes))
            await asyncio.sleep(0)
            await store.close()
            with pytest.raises(StoreDown, match="closed"):
                await waiting
        with pytest.raises(StoreDown, match="closed"):
            await store.put("k", b"2", ABSENT)


async def test_an_opening_can_be_given_up_at_any_moment(tmp_path: Path) -> None:
    """Also at the one where the library takes a cancellation for an answer (asyncio.wait_for, until Python 3.12)."""
    async with running(tmp_path) as server:
        await server.kill()
        for number in range(150):
            opening = asyncio.create_task(NatsKvStore(server.endpoint, name="test").open())
            for _ in range(number % 30):
                await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening


async def test_a_question_can_be_given_up_at_any_moment(tmp_path: Path) -> None:
    """As above."""
    async with running(tmp_path) as server, opened(server.endpoint) as store:
        await store.get("k")
        connection = store._session._connection
        assert connection is not None
        for number in range(300):
            asking = asyncio.create_task(store.get("k"))
            while not (answers := list(connection._resp_map.values())):  # noqa: ASYNC110  # the library has no event
                await asyncio.sleep(0)
            await answers[0]
            for _ in range(number % 3):
                await asyncio.sleep(0)
            if asking.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await asking


def test_what_cannot_be_a_store_is_refused() -> None:
    with pytest.raises(ConfigError, match="redis://h:1 is not a NATS server"):
        NatsKvStore(Endpoint(REDIS, "h", 1), name="test")
    with pytest.raises(ConfigError, match=r"bucket 'a\.b' is not a name"):
        NatsKvStore(Endpoint(NATS, "h", 1), name="test", bucket="a.b")


async def test_a_server_without_jetstream_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, ServerSpec(NATS, "plain")) as server:
        with pytest.raises(StoreDown, match="open bucket 'nearcast'"):
            await NatsKvStore(server.endpoint, name="test").open()


# Being let in

RIGHT = "a password"


async def test_a_password_lets_in_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    spec = ServerSpec(NATS, "store", jetstream=True, user="coordinator", password=RIGHT)
    async with running(tmp_path, spec) as server:
        async with opened(server.endpoint) as store:
            assert await store.get("k") is None
        at = server.endpoint
        wrong = Endpoint(NATS, at.host, at.port, "coordinator", RIGHT[1:])
        with pytest.raises(StoreDown, match="Authorization Violation"):
            await NatsKvStore(wrong, name="test").open()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    where = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=store.test"
    files = ["-addext", "subjectAltName=DNS:store.test", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*command.split(), *files], cwd=where, check=True, capture_output=True)
    return Tls(where / "cert.pem", where / "cert.pem", where / "key.pem", "store.test")


async def test_with_tls_it_works_and_outlasts_a_restart(tmp_path: Path, certificate: Tls) -> None:
    async with running(tmp_path, ServerSpec(NATS, "store", jetstream=True, tls=certificate)) as server:
        async with opened(server.endpoint) as store:
            revision = await store.put("k", bytes(MAX_VALUE_BYTES), ABSENT)
            await server.kill()
            await server.restart()
            await until_answered(store)
            assert await store.put("k", b"2", revision) > revision
        at = server.endpoint
        with pytest.raises(StoreDown, match="certificate verify failed"):
            await NatsKvStore(Endpoint(NATS, at.host, at.port, tls=Tls()), name="test").open()


async def test_a_password_is_not_sent_to_a_server_that_does_not_want_tls(tmp_path: Path, certificate: Tls) -> None:
    async with running(tmp_path) as server:
        at = server.endpoint
        wants = Endpoint(NATS, at.host, at.port, "coordinator", "secret", Tls(certificate.ca_file))
        with pytest.raises(StoreDown, match="secure connection"):
            await NatsKvStore(wants, name="test").open()


async def until_answered(store: NatsKvStore) -> None:
    while True:
        try:
            await store.get("k")
        except StoreDown:
            await asyncio.sleep(0.02)
        else:
            return


# A server that does not answer


async def test_who_waits_for_an_answer_is_told_at_once_when_the_server_dies(tmp_path: Path) -> None:
    async with running(tmp_path) as server, opened(server.endpoint) as store:
        server.pause()
        await until(lambda: stopped(server.pid))
        began_s = time.monotonic()
        asking = asyncio.create_task(store.put("k", b"1", ABSENT))
        await asyncio.sleep(0.01)
        await server.kill()
        with pytest.raises(StoreDown, match=r"'k'.* was lost before it answered: it may have been done, or may yet be"):
            await asking
        assert time.monotonic() - began_s < PATIENCE_S / 2


async def test_a_frozen_server_that_takes_nothing_more_holds_nobody_up(tmp_path: Path) -> None:
    """Its sockets are full: even a farewell could not be sent."""
    async with running(tmp_path) as server, opened(server.endpoint) as store:
        server.pause()
        await until(lambda: stopped(server.pid))
        began_s = time.monotonic()
        puts = [store.put(f"k{number}", bytes(MAX_VALUE_BYTES), ABSENT) for number in range(12)]
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreDown] * 12
        await store.close()
        assert time.monotonic() - began_s < 2 * PATIENCE_S


async def test_whatever_happens_the_library_logs_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with running(tmp_path) as server, opened(server.endpoint) as store:
            for _ in range(3):
                await asyncio.gather(*(store.get("k") for _ in range(20)))
                busy = [asyncio.create_task(store.put(f"k{number}", b"1", ABSENT)) for number in range(50)]
                await asyncio.sleep(0.005)
                await server.kill()
                await asyncio.gather(*busy, return_exceptions=True)
                await server.restart()
                await until_answered(store)
    assert [record for record in caplog.records if record.name.startswith("nats")] == []


async def test_no_task_and_no_consumer_is_left_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        before = len(asyncio.all_tasks())
        async with opened(server.endpoint) as store:
            for _ in range(2):
                await server.kill()
                await server.restart()
                await until_answered(store)
            for _ in range(5):
                await store.list("")
            async with aclosing(store.watch("")) as changes:
                await store.put("k", b"1", ABSENT)
                await anext(changes)
            async with other_client(server) as js, asyncio.timeout(5):
                while await js.consumers_info("KV_nearcast"):  # noqa: ASYNC110  # only the server knows
                    await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == before


# What others write


@asynccontextmanager
async def other_client(server: Server) -> AsyncIterator[nats.js.JetStreamContext]:
    client = await nats.connect(server.endpoint.url)
    try:
        yield client.jetstream()
    finally:
        await client.close()


async def test_the_values_are_those_of_a_key_value_bucket(tmp_path: Path) -> None:
    """So that the usual tools show and mend them."""
    async with running(tmp_path) as server, opened(server.endpoint) as store, other_client(server) as js:
        bucket = await js.key_value("nearcast")
        revision = await store.put("topic/game.room1", b"1", ABSENT)
        shown = await bucket.get("topic.game/room1")
        assert (shown.value, shown.revision) == (b"1", revision)
        async with aclosing(store.watch("topic/")) as changes:
            assert (await anext(changes)).value == b"1"
            written = await bucket.put("topic.game/room1", b"2")
            changed = await anext(changes)
            assert (changed.key, changed.value, changed.revision) == ("topic/game.room1", b"2", written)
            await bucket.put("topic.not=ours", b"3")
            await bucket.purge("topic.game/room1")
            assert (await anext(changes)).value is None
        assert await store.list("") == []
        assert await store.put("topic/game.room1", b"4", ABSENT) > written


async def test_a_store_that_has_lost_data_is_not_taken_for_one_where_nothing_happens(tmp_path: Path) -> None:
    async with running(tmp_path) as server, opened(server.endpoint) as store:
        revision = ABSENT
        for number in range(5):
            revision = await store.put("k", str(number).encode(), revision)
        async with aclosing(store.watch("")) as changes:
            await anext(changes)
            waiting = asyncio.create_task(anext(changes))
            await server.kill()
            shutil.rmtree(server.data)
            await server.restart()
            async with opened(server.endpoint) as fresh:
                await fresh.put("k", b"new", ABSENT)
                with pytest.raises(StoreError, match="went from revision 5 back to"):
                    await waiting


# Pace


async def test_a_watcher_that_does_not_read_holds_no_more_than_one_order(tmp_path: Path) -> None:
    async with (
        running(tmp_path) as server,
        opened(server.endpoint) as store,
        other_client(server) as js,
        aclosing(store.watch("")) as changes,
    ):
        await store.put("there", b"", ABSENT)
        await anext(changes)
        await store.put("changed", b"", ABSENT)
        await anext(changes)
        before = received(store)
        await asyncio.gather(*(js.publish(f"$KV.nearcast.{number}", b"v") for number in range(1000)))
        await until(lambda: received(store) - before >= 255)
        await asyncio.sleep(0.3)  # time for more, if more was asked for
        assert received(store) - before < 260
        seen = {(await anext(changes)).key for _ in range(1000)}
        assert seen == {str(number) for number in range(1000)}


def received(store: NatsKvStore) -> int:
    connection = store._session._connection
    assert connection is not None
    return connection.stats["in_msgs"]
