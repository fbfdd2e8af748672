"""The tile game with real clients on real servers."""

import asyncio

from nearcast.lab.experiments.dynamoth_scalability_live import carried_by, overwhelmed, response_ms
from nearcast.lab.live.game import LiveGame, play_live
from nearcast.lab.live.players import SecondSeen
from nearcast.lab.workloads.schedule import Schedule
from nearcast.lab.workloads.tiles import World
from tests.live.conftest import on_redis

_SCHEDULE = Schedule(((0.0, 8), (8.0, 16)))


def played(kind: str, line_bytes_per_s: float) -> list[SecondSeen]:
    world = World(across=2, side=50.0, speed_per_s=5.0)
    game = LiveGame(kind, 2, "hash", world, _SCHEDULE, line_bytes_per_s, fails_at=1.15, message_bytes=1400)
    return asyncio.run(play_live(game, seed=3, enough=overwhelmed, told=lambda _second: None))


@on_redis
def test_players_hear_each_other_and_themselves(kind: str) -> None:
    seen = played(kind, 10e6)
    assert 6 <= len(seen) <= 8
    assert seen[-1].players in {15, 16}
    published, heard = sum(each.published for each in seen), sum(each.responses for each in seen)
    assert 0.8 * published <= heard <= published
    assert sum(each.delivered for each in seen) > 2 * published
    assert sum(each.reports for each in seen) == 0
    assert 20.0 <= float(response_ms(seen).mean()) < 150.0  # 10 ms each way
    assert carried_by(seen) == seen[-1].players


def test_a_full_line_is_seen_as_late_responses() -> None:
    """16 players on 4 tiles ask for some 200 messages a second, and two lines take 30 each."""
    assert float(response_ms(played("redis", 40e3))[-3:].mean()) > 500.0
