"""Commands of a user, asked of a fleet that the test's own event loop runs."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from nearcast.transport.config import Config

Ask = Callable[..., Awaitable[Any]]


def asker(config: Config) -> Ask:
    """Runs one command line; its answer is read from JSON, or its text with `as_json=False`."""

    async def ask(*arguments: str, as_json: bool = True) -> Any:
        argv = [sys.executable, "-m", "nearcast", *arguments, *(["--json"] if as_json else [])]
        env = {**os.environ, "NEARCAST_CONFIG": str(config.path)}
        pipe = asyncio.subprocess.PIPE
        run = await asyncio.create_subprocess_exec(*argv, env=env, stdout=pipe, stderr=pipe)
        out, err = await run.communicate()
        assert run.returncode == 0, (arguments, out, err)
        return json.loads(out) if as_json else out.decode()

    return ask


async def until(seconds: float, asked: Callable[[], Awaitable[Any]], good: Callable[[Any], object]) -> Any:
    """The first answer that is good."""
    until_s = time.monotonic() + seconds
    while not good(found := await asked()):
        assert time.monotonic() < until_s, json.dumps(found)
        await asyncio.sleep(0.5)
    return found
