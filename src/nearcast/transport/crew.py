"""The tasks of one process: every task has an owner, and nothing is fired and forgotten."""

import asyncio
from collections.abc import Coroutine
from typing import Any

_ASK_AGAIN_S = 1.0


class Crew:
    """Starts tasks and ends them. A task that fails reaches the event loop's exception handler at once."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        if self._closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    async def close(self) -> None:
        """Cancels what is left and waits for it; what is started from now on is dropped.

        Asks again while a task goes on: a library may take a cancellation for the end of its own timeout.
        """
        self._closed = True
        while left := list(self._tasks):
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=_ASK_AGAIN_S)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            message = f"task {task.get_name()} failed"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error, "task": task})
