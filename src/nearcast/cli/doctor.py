"""`nearcast doctor`."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.connect import records_of
from nearcast.cli.options import AsJson
from nearcast.cli.output import print_json
from nearcast.cli.state import State, look
from nearcast.domain.errors import ConfigError, FleetError, StoreError
from nearcast.fleet.programs import nats_program, redis_program
from nearcast.transport.config import Config, find_config, load_config
from nearcast.transport.process import run


@dataclass(frozen=True, slots=True)
class Finding:
    """`well` None: not a fault, but worth knowing."""

    about: str
    well: bool | None
    found: str
    advice: str = ""


def diagnose(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The deployment's file.", show_default=False)
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Check this machine and the deployment, one line each, with what to do. Exit code 1 when something is wrong."""
    findings = [*_programs(), *run_checks(config)]
    if as_json:
        print_json(findings)
    else:
        for each in findings:
            mark = {True: "ok  ", False: "FAIL", None: "note"}[each.well]
            print(f"{mark}  {each.about}: {each.found}{f'; {each.advice}' if each.advice else ''}")
    raise typer.Exit(int(any(each.well is False for each in findings)))


def run_checks(path: Path | None) -> list[Finding]:
    try:
        config = load_config(path)
    except ConfigError as error:
        return [Finding("configuration", False, str(error))]
    findings = [Finding("configuration", True, str(find_config(path))), *_key_file(config)]
    out: list[Finding] = []

    async def check() -> None:
        out.extend(await _deployment(config))

    run(check())
    return [*findings, *out]


def _programs() -> Iterator[Finding]:
    for about, find in (("nats-server", nats_program), ("redis-server", redis_program)):
        try:
            yield Finding(about, True, str(find()))
        except FleetError as error:
            yield Finding(about, None, str(error), "needed only by `nearcast up` and `nearcast demo`")


def _key_file(config: Config) -> Iterator[Finding]:
    key = config.path.parent / "key"
    if "NEARCAST_KEY" in os.environ or not key.exists():
        return
    if key.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        yield Finding("key file", False, f"{key} can be read by others", f"chmod 600 {key}")
    else:
        yield Finding("key file", True, "readable by its owner only")


async def _deployment(config: Config) -> list[Finding]:
    state = await look(config)
    out = [_control(config, state)]
    try:
        async with records_of(config) as records:
            found = await records.load()
        out.append(Finding("store", True, f"{len(found)} topics have a route of their own"))
    except StoreError as error:
        out.append(Finding("store", False, str(error), "does the control bus run with JetStream?"))
    for each in state.brokers:
        about = f"broker {each.name}"
        if not each.up:
            out.append(Finding(about, False, each.error or "down", f"is a {each.kind} server running at {each.url}?"))
        elif each.agent == "lost":
            advice = f"run `nearcast agent --broker {each.name}` beside it"
            out.append(Finding(about, False, f"answers in {each.rtt_ms} ms, but its agent does not", advice))
        else:
            out.append(Finding(about, True, f"answers in {each.rtt_ms} ms, agent {each.agent}"))
    return out


def _control(config: Config, state: State) -> Finding:
    if state.leader is not None:
        return Finding("control", True, f"{state.leader.leader} leads at {config.control.url}")
    if state.bus_up:
        return Finding("control", False, state.trouble or "nobody leads", "run `nearcast coordinator`")
    advice = f"is a NATS server with JetStream running at {config.control.url}?"
    return Finding("control", False, state.trouble or "no answer", advice)
