"""Keeps a set of named children running under one state directory, and ends them all."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, overload

from nearcast.domain.errors import FleetError
from nearcast.fleet.child import Child
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.fleet.status import (
    ChildState,
    ChildStatus,
    FleetStatus,
    StateLock,
    process_mark,
    read_status,
    write_status,
)

_CLOSE_S = 15.0
_GRACE_S = 5.0
_PREDECESSOR_S = 5.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Patience:
    """When to start again what died, and when to stop trying."""

    first_s: float = 0.1
    last_s: float = 5.0
    stable_s: float = 5.0  # who lived this long did not die at its start
    attempts: int = 5  # so many deaths at the start in a row, and it is given up

    def pause_s(self, deaths: int) -> float:
        return min(self.first_s * 2.0 ** (deaths - 1), self.last_s)


class Supervisor:
    """Starts children in order, restarts what dies, and ends everything in reverse order.

    Nothing it started outlives it, even when it is killed: see Process. Not noticed: a child that lives and does not
    work.
    """

    def __init__(
        self, state: Path, *, say: Callable[[str], None] = lambda _message: None, patience: Patience | None = None
    ) -> None:
        """Use it with `async with`, or by `run`. `say` is told in a sentence when a child dies and when it is back."""
        self.state = state
        self._say = say
        self._patience = patience or Patience()
        self._lock = StateLock(state)
        self._children: dict[str, Child] = {}
        self._status: dict[str, ChildStatus] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._vital: dict[str, bool] = {}
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()
        self._running = False

    async def __aenter__(self) -> Self:
        """Raises FleetError when another process runs a fleet in this state directory."""
        self._lock.acquire()
        try:
            await self._outlast_predecessor()
        except BaseException:
            self._lock.release()
            raise
        self._running = True
        self._write()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def run(self, launch: Callable[["Supervisor"], Awaitable[None]], stopped: asyncio.Event) -> None:
        """Let `launch` start children, keep them running until `stopped` is set, and end them.

        `stopped` also ends a launch that is under way. Raises what `launch` raises, and FleetError when a child is
        given up; all children have ended by then.
        """

        async def launched() -> None:
            await launch(self)
            await asyncio.Event().wait()

        async with self:
            tasks = [asyncio.create_task(work) for work in (launched(), self.keep(), stopped.wait())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for task in done:
                task.result()

    @overload
    async def start(self, spec: ServerSpec, *, vital: bool = True) -> Server: ...
    @overload
    async def start(self, spec: CommandSpec, *, vital: bool = True) -> Command: ...
    async def start(self, spec: ServerSpec | CommandSpec, *, vital: bool = True) -> Server | Command:
        """Return when it is ready; from then on it is kept running. Raises FleetError when it does not start.

        `vital`: when it is given up, all is (see `keep`); else that is said, and the rest goes on.
        """
        if not self._running:
            raise FleetError(f"{spec.name}: the fleet in {self.state} is not running")
        if spec.name in self._children:
            raise FleetError(f"{spec.name}: there is a child of this name already")
        child = Server(spec, self.state) if isinstance(spec, ServerSpec) else Command(spec, self.state)
        self._children[spec.name] = child
        self._vital[spec.name] = vital
        try:
            await child.restart()
        except BaseException:
            del self._children[spec.name]
            raise
        self._note(child)
        self._begin_watching(child)
        return child

    def child(self, name: str) -> Child:
        """Raises FleetError when there is none of this name."""
        if name not in self._watchers:
            raise FleetError(f"{name}: no such child; children are {', '.join(self._watchers) or 'none'}")
        return self._children[name]

    async def renew(self, name: str) -> None:
        """Stop one child in order and start it again, as it was: what it reads at its start it reads anew.

        Raises FleetError when there is none of this name, or when it does not start; then it is no child any more.
        """
        child = self.child(name)
        await self._unwatch(name)
        try:
            await child.stop(_GRACE_S)
            await child.restart()
        except BaseException:
            del self._children[name], self._status[name]
            self._write()
            raise
        self._note(child, last_end="was renewed", restarts=self._status[name].restarts + 1)
        self._begin_watching(child)

    async def retire(self, name: str) -> None:
        """End one child for good. Raises FleetError when there is none of this name."""
        child = self.child(name)
        await self._unwatch(name)
        del self._children[name]
        await child.stop(_GRACE_S)
        del self._status[name]
        self._write()

    async def keep(self) -> None:
        """Never returns. Raises FleetError when a child is given up."""
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    async def close(self) -> None:
        """End every child, the newest first: TERM, and KILL for what takes too long, or when this is cancelled."""
        if not self._running:
            return
        self._running = False
        deadline_s = time.monotonic() + _CLOSE_S
        started = [child for name, child in self._children.items() if name in self._status]
        try:
            for name in list(self._watchers):
                await self._unwatch(name)
            for child in reversed(started):
                await child.stop(max(0.0, min(_GRACE_S, deadline_s - time.monotonic())))
        finally:
            await asyncio.gather(*(child.kill() for child in started))
            self._status = {name: replace(each, state="stopped") for name, each in self._status.items()}
            self._write()
            self._lock.release()

    @property
    def status(self) -> FleetStatus:
        mark = process_mark(os.getpid())
        assert mark is not None
        children = tuple(self._status[name] for name in self._children if name in self._status)
        return FleetStatus(os.getpid(), mark, "running" if self._running else "stopped", children)

    async def _watch(self, child: Child) -> None:
        """Ends when the child is given up: by an error, if it is vital."""
        deaths, born_s = 0, time.monotonic()
        while True:
            how = _ending(await child.wait())
            deaths = deaths + 1 if time.monotonic() - born_s < self._patience.stable_s else 1
            trouble = child.failure(how)
            while deaths < self._patience.attempts:
                self._note(child, state="restarting", last_end=how)
                pause_s = self._patience.pause_s(deaths)
                self._say(f"{child.name} {how}; starting it again in {pause_s:.1f} s; its log is {child.log}")
                await asyncio.sleep(pause_s)
                born_s = time.monotonic()
                try:
                    await child.restart()
                except FleetError as error:
                    how, trouble = "did not start again", error
                    deaths += 1
                    continue
                break
            else:
                self._note(child, state="failed", last_end=how)
                given_up = f"{child.name} is given up after {deaths} ends in a row right at its start: {trouble}"
                if self._vital[child.name]:
                    raise FleetError(given_up)
                self._say(given_up)
                return
            restarts = self._status[child.name].restarts + 1
            self._note(child, restarts=restarts)
            self._say(f"{child.name} runs again, as process {child.pid}; restarts: {restarts}")

    def _begin_watching(self, child: Child) -> None:
        watcher = asyncio.create_task(self._watch(child), name=f"watch {child.name}")
        watcher.add_done_callback(self._watched)
        self._watchers[child.name] = watcher

    def _watched(self, watcher: asyncio.Task[None]) -> None:
        if not watcher.cancelled() and self._failure is None and (failure := watcher.exception()) is not None:
            self._failure = failure
            self._failed.set()

    async def _unwatch(self, name: str) -> None:
        """Ends a restart that is under way, too: it kills what it had started."""
        watcher = self._watchers.pop(name)
        watcher.cancel()
        await asyncio.wait([watcher])

    def _note(
        self, child: Child, *, state: ChildState = "running", last_end: str | None = None, restarts: int | None = None
    ) -> None:
        old = self._status.get(child.name)
        self._status[child.name] = ChildStatus(
            child.name,
            child.kind,
            child.pid,
            process_mark(child.pid) or 0,
            state,
            restarts if restarts is not None else old.restarts if old else 0,
            str(child.log),
            child.url,
            last_end or (old.last_end if old else None),
            dict(child.facts),
        )
        self._write()

    def _write(self) -> None:
        write_status(self.state, self.status)

    async def _outlast_predecessor(self) -> None:
        """Children of a fleet that was killed die a moment after the lock is free, and have their ports till then."""
        before = None
        with contextlib.suppress(FleetError):  # what cannot be read is replaced
            before = read_status(self.state)
        deadline_s = time.monotonic() + _PREDECESSOR_S
        while left := [child for child in before.children if child.alive] if before else []:
            if time.monotonic() > deadline_s:
                names = ", ".join(f"{child.name} (process {child.pid})" for child in left)
                raise FleetError(f"{self.state}: children of an earlier fleet still run: {names}; end them first")
            await asyncio.sleep(_POLL_S)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    return f"was ended by {signal.Signals(-code).name}"
