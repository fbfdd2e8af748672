"""Real NATS and Redis servers as child processes, on the loopback interface."""

import asyncio
import contextlib
import json
import re
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearcast.domain.errors import ConfigError, FleetError
from nearcast.fleet.ports import HOST, free_port
from nearcast.fleet.probe import Refused, ask
from nearcast.fleet.processes import Process
from nearcast.fleet.programs import nats_config, nats_program, redis_config, redis_program
from nearcast.transport.endpoint import NATS, REDIS, Endpoint, Tls

_START_S = 15.0
_RETRY_S = 0.01
_ANSWER_S = 1.0  # what keeps silent for longer may be another process that has the port: see whether ours still lives
_PORT_ATTEMPTS = 5
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_USER = re.compile(r"[^\s\"'\\#]+")


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What to start. `port` 0 means a free one, kept over restarts; `tls` has the server's certificate and key, and
    the authority (`ca_file`) and name by which clients know it."""

    kind: str
    name: str
    port: int = 0
    jetstream: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if self.kind not in {NATS, REDIS}:
            raise ConfigError(f"server {self.name!r}: kind {self.kind!r} is not a kind of server ({NATS}, {REDIS})")
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"server name {self.name!r}: expected letters, digits, '_', '.' and '-'")
        if self.jetstream and self.kind != NATS:
            raise ConfigError(f"server {self.name!r}: jetstream is NATS's; {self.kind} has none")
        if self.user is not None and not _USER.fullmatch(self.user):
            raise ConfigError(f"server {self.name!r}: user {self.user!r} has a space, a quote, '#' or a backslash")
        if self.password is not None and not self.password.isprintable():
            raise ConfigError(f"server {self.name!r}: the password has characters that cannot be printed")
        if self.tls is not None and None in {self.tls.cert_file, self.tls.key_file}:
            raise ConfigError(f"server {self.name!r}: tls needs the server's cert_file and key_file")
        self.endpoint_at(self.port or 1)  # checks what an endpoint checks

    def endpoint_at(self, port: int) -> Endpoint:
        """Where clients reach it, and how they are let in."""
        tls = None if self.tls is None else Tls(ca_file=self.tls.ca_file, server_name=self.tls.server_name)
        return Endpoint(self.kind, HOST, port, self.user, self.password, tls)


class Server:
    """One server process, below a state directory: `<name>/` has its configuration and data, `logs/` its log."""

    def __init__(self, spec: ServerSpec, state: Path) -> None:
        """Not running; see `start`."""
        self.spec = spec
        self.log = state / "logs" / f"{spec.name}.log"
        self.data = state / spec.name / "data"
        self._config = state / spec.name / "server.conf"
        self._process: Process | None = None

    @classmethod
    async def start(cls, spec: ServerSpec, state: Path) -> "Server":
        """Return when it answers. Raises FleetError naming the log file, with its last lines, when it does not."""
        server = cls(spec, state)
        await server.restart()
        return server

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def endpoint(self) -> Endpoint:
        """The same over restarts; not known before the first start."""
        return self.spec.endpoint_at(self.spec.port)

    @property
    def pid(self) -> int:
        """Of the newest process, even if it has ended."""
        return self._spawned.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def wait(self) -> int:
        """Return the exit code once it has ended, for whatever reason."""
        return await self._spawned.wait()

    async def stop(self) -> None:
        """TERM, then KILL after a few seconds. Does nothing when it has ended."""
        await self._spawned.stop()

    async def kill(self) -> None:
        """-9. What a client was told is not undone: JetStream's data is on disk."""
        await self._spawned.kill()

    async def restart(self) -> None:
        """Start on the same port and data, after ending what still runs. Fails as `start` does."""
        if self._process is not None:
            await self._process.stop()
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            port = self.spec.port or free_port()
            process = self._spawn(port)
            try:
                await self._until_ready(process, port)
            except _PortTaken:
                if self.spec.port or attempt == _PORT_ATTEMPTS:
                    raise process.failure(f"port {port} is taken by another process") from None
            except BaseException:
                process.send(signal.SIGKILL)
                await process.wait()
                raise
            else:
                self._process, self.spec = process, replace(self.spec, port=port)
                return

    def pause(self) -> None:
        """SIGSTOP: connections stay, and nothing is read, answered or sent."""
        self._spawned.send(signal.SIGSTOP)

    def resume(self) -> None:
        self._spawned.send(signal.SIGCONT)

    @property
    def _spawned(self) -> Process:
        if self._process is None:
            raise FleetError(f"{self.name}: never started")
        return self._process

    def _spawn(self, port: int) -> Process:
        self.data.mkdir(parents=True, exist_ok=True)
        at, tls = self.spec.endpoint_at(port), self.spec.tls
        if self.spec.kind == NATS:
            argv = [nats_program(), "-c", str(self._config)]
            text = nats_config(self.name, at, self.data, tls=tls, jetstream=self.spec.jetstream)
            for stale in self.data.glob("*.ports"):
                stale.unlink()
        else:
            argv = [redis_program(), str(self._config)]
            text = redis_config(at, self.data, tls=tls)
        self._config.touch(mode=0o600)
        self._config.write_text(text)
        return Process.spawn(self.name, argv, log=self.log)

    async def _until_ready(self, process: Process, port: int) -> None:
        endpoint = self.spec.endpoint_at(port)
        deadline_s = time.monotonic() + _START_S
        while process.returncode is None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise process.failure(f"did not answer at {endpoint.url} within {_START_S:.0f} s")
            if self._listens(process.pid):
                with contextlib.suppress(OSError, EOFError, TimeoutError):
                    try:
                        async with asyncio.timeout(min(left_s, _ANSWER_S)):
                            return await ask(endpoint, process.pid)
                    except Refused as refused:
                        raise process.failure(str(refused)) from None
            await asyncio.sleep(_RETRY_S)
        if "address already in use" in process.output().lower():
            raise _PortTaken
        raise process.failure(f"ended with code {process.returncode} while starting")

    def _listens(self, pid: int) -> bool:
        """Whether what answers at the port will be this process. Redis is asked for its pid, NATS writes a file."""
        if self.spec.kind != NATS:
            return True
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            return "nats" in json.loads((self.data / f"nats-server_{pid}.ports").read_text())
        return False


class _PortTaken(Exception):
    pass
