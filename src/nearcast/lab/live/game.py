"""The tile game on a few real servers whose lines are limited, under one policy."""

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.led import until_led
from nearcast.lab.live.players import PlayersSpec, SecondSeen
from nearcast.lab.workloads.schedule import Schedule
from nearcast.lab.workloads.tiles import World
from nearcast.transport.config import load_config

_PARTS = 2  # processes that share the players
_END_S = 20.0
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class LiveGame:
    """`line_bytes_per_s`: what each server can send to players; load ratios are of `line_bytes_per_s / fails_at`."""

    kind: str
    servers: int
    policy: str
    world: World
    schedule: Schedule
    line_bytes_per_s: float
    fails_at: float
    message_bytes: int
    near_s: float = 0.01

    @property
    def fleet(self) -> LocalSpec:
        return LocalSpec(
            sites=self.servers,
            kind=self.kind,
            coordinators=1,
            near_s=self.near_s,
            link_bytes_per_s=self.line_bytes_per_s,
            out_bytes_per_s=self.line_bytes_per_s / self.fails_at,
            rebalance={
                "policy": self.policy,
                "every_s": 1.0,
                "min_brokers": self.servers,
                "max_brokers": self.servers,
            },
        )


async def play_live(
    game: LiveGame, seed: int, *, enough: Callable[[Sequence[SecondSeen]], bool], told: Callable[[SecondSeen], None]
) -> list[SecondSeen]:
    """What all players saw together, second by second, until the schedule ends or `enough` was seen."""
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder:
        state = Path(folder)
        async with Supervisor(state) as supervisor:
            spec = game.fleet
            config = load_config(await launch(supervisor, spec))
            await until_led(config, spec.brokers)
            specs = [
                PlayersSpec(
                    str(config.path),
                    str(state / f"players-{part}.jsonl"),
                    spec.site(0),
                    game.world,
                    game.schedule,
                    seed,
                    part,
                    _PARTS,
                    game.message_bytes,
                )
                for part in range(_PARTS)
            ]
            parts = [await _start(each, state) for each in specs]
            try:
                for part in parts:
                    part.send(signal.SIGUSR1)
                return await _watch(game, state, enough, told)
            finally:
                await asyncio.gather(*(part.stop(_END_S) for part in parts))


async def _watch(
    game: LiveGame, state: Path, enough: Callable[[Sequence[SecondSeen]], bool], told: Callable[[SecondSeen], None]
) -> list[SecondSeen]:
    until_s = time.monotonic() + game.schedule.end_s + _LOOK_S
    seen: list[SecondSeen] = []
    while time.monotonic() < until_s and not enough(seen):
        await asyncio.sleep(_LOOK_S)
        seen = _together([_lines(state / f"players-{part}.jsonl") for part in range(_PARTS)])
        if seen:
            told(seen[-1])
    return seen


def _lines(file: Path) -> list[SecondSeen]:
    whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
    return [msgspec.json.decode(line, type=SecondSeen) for line in whole.splitlines()]


def _together(parts: list[list[SecondSeen]]) -> list[SecondSeen]:
    return [
        SecondSeen(seconds[0].at_s, *(sum(column) for column in zip(*map(_counts, seconds), strict=True)))
        for seconds in zip(*parts, strict=False)
    ]


def _counts(second: SecondSeen) -> tuple[float, ...]:
    return msgspec.structs.astuple(second)[1:]


async def _start(spec: PlayersSpec, state: Path) -> Command:
    file = state / f"players-{spec.part}.json"
    file.write_bytes(msgspec.json.encode(spec))
    argv = (sys.executable, "-m", "nearcast.lab.live.players", str(file))
    return await Command.start(CommandSpec(file.stem, "clients", argv, start_s=60.0), state)
