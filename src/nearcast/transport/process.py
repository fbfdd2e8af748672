"""What every process of ours does: one event loop, a line when it is ready, and a clean end on SIGINT and SIGTERM."""

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

_UNHANDLED = 70  # EX_SOFTWARE: an error of ours


def run(main: Coroutine[Any, Any, int | None]) -> int:
    """Runs to the end and returns the exit code.

    An error that nobody handles ends the process at once: what a crash leaves undone is noticed and reported by others,
    what a half-dead process leaves undone is not.
    """

    async def guarded() -> int | None:
        asyncio.get_running_loop().set_exception_handler(_die)
        return await main

    return uvloop.run(guarded()) or 0


def _die(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    loop.default_exception_handler(context)
    if "exception" in context:
        os._exit(_UNHANDLED)


def run_until_stopped(serve: Callable[[asyncio.Event], Coroutine[Any, Any, int | None]]) -> int:
    """`serve` is given an event that is set on SIGINT and SIGTERM, and ends soon after."""

    async def main() -> int | None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        return await serve(stopped)

    return run(main())


def say_ready(**facts: object) -> None:
    """One JSON line on standard output: whoever started this process need not guess when it is up.

    What is here by then stays: the garbage collector looks at it a last time. To look through it again and again would
    hold messages up for tens of milliseconds.
    """
    gc.collect()
    gc.freeze()
    sys.stdout.write(json.dumps({"ready": True, **facts}) + "\n")
    sys.stdout.flush()


async def wait_until(reached: Callable[[], bool], stopped: asyncio.Event) -> bool:
    """False when the process was stopped before."""
    while not reached():
        if stopped.is_set():
            return False
        await asyncio.sleep(0.02)
    return True
