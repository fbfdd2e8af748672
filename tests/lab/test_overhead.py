"""What the overhead experiment measures with, on real servers. Its verdict is not tested here: that is the lab's."""

from pathlib import Path

import pytest

from nearcast.agent.counters import NatsCounters
from nearcast.domain.errors import FleetError
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.lab.experiments.dynamoth_overhead import EXPERIMENT, LEFT
from nearcast.lab.live.flood import flood, wire_of
from nearcast.lab.live.overhead import OverheadFleet, OverheadScale
from nearcast.transport.clock import SystemClock
from nearcast.transport.endpoint import NATS, REDIS

TINY = OverheadScale(rounds=1, seconds=0.5, warm_up_s=0.2, clients=3, topics=2)


async def test_a_flood_counts_what_the_server_has_sent(tmp_path: Path) -> None:
    server = await Server.start(ServerSpec(NATS, "b1", monitor=True), tmp_path)
    try:
        assert server.monitor_url is not None
        counters = NatsCounters(server.monitor_url, SystemClock())
        before = await counters.totals()
        rate_hz = flood(server.endpoint, fanout=3, size_bytes=100, warm_up_s=0.0, seconds=0.5)
        sent = (await counters.totals()).out_bytes - before.out_bytes
    finally:
        await server.kill()
    assert rate_hz > 1000
    assert 0.5 * rate_hz * 100 <= sent <= 0.5 * rate_hz * 100 * 1.5 + 3 * 4096 * 100


@pytest.mark.parametrize("kind", [NATS, REDIS])
async def test_a_server_that_is_gone_is_told(kind: str, tmp_path: Path) -> None:
    server = await Server.start(ServerSpec(kind, "b1"), tmp_path)
    await server.kill()
    with pytest.raises(FleetError, match="the flood broke off"):
        flood(server.endpoint, fanout=1, size_bytes=10, warm_up_s=0.0, seconds=0.1)


def test_a_message_is_as_long_as_the_servers_write_it() -> None:
    assert wire_of(NATS, 5).heard_bytes == len(b"MSG flood 1 5\r\n00000\r\n")
    assert wire_of(REDIS, 5).heard_bytes == len(b"*3\r\n$7\r\nmessage\r\n$5\r\nflood\r\n$5\r\n00000\r\n")


@pytest.mark.parametrize("kind", [NATS, REDIS])
async def test_a_fleet_that_stood_still_is_measured_again(kind: str, tmp_path: Path) -> None:
    async with OverheadFleet(kind, TINY, tmp_path / "on", analyzer=True) as fleet:
        for _ in range(2):
            fleet.pause()
            found = await fleet.measure()
            assert found.deliveries_hz > 1000
            assert found.server_cpu > 0.01


def test_both_kinds_of_server_are_claimed() -> None:
    assert EXPERIMENT.expectations == tuple(LEFT.values())
    assert {each.id for each in EXPERIMENT.expectations} == {"DYN-7"}
    assert {each.expected for each in EXPERIMENT.expectations} == {">= 0.95"}
