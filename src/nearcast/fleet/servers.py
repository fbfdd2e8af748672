"""Real NATS and Redis servers as child processes, on the loopback interface."""

import asyncio
import contextlib
import json
import re
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearcast.domain.errors import ConfigError
from nearcast.fleet.child import Child
from nearcast.fleet.cluster import Cluster
from nearcast.fleet.permissions import Guard
from nearcast.fleet.ports import HOST, free_port
from nearcast.fleet.probe import Refused, ask
from nearcast.fleet.processes import Process, check_name
from nearcast.fleet.programs import nats_config, nats_program, redis_config, redis_program
from nearcast.transport.endpoint import NATS, REDIS, Endpoint, Tls

_START_S = 15.0
_RETRY_S = 0.01
_ANSWER_S = 1.0  # what keeps silent for longer may be another process that has the port: see whether ours still lives
_PORT_ATTEMPTS = 5
_USER = re.compile(r"[^\s\"'\\#]+")


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What to start. `port` 0 means a free one, kept over restarts; `tls` has the server's certificate and key, and
    the authority (`ca_file`) and name by which clients know it. With `monitor`, a NATS server shows its counters at
    another port, to anybody on this machine. `output_bytes`: a subscriber that has more than this still to read is cut
    off; None for a limit that is far away. With `cluster`, a NATS server shares its streams with others. With `guard`,
    in the place of `user` and `password`, it lets in the roles of a fleet, each for what it may do; `endpoint` is then
    the coordinator's."""

    kind: str
    name: str
    port: int = 0
    jetstream: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None
    monitor: bool = False
    monitor_port: int = 0
    output_bytes: int | None = None
    cluster: Cluster | None = None
    guard: Guard | None = None

    def __post_init__(self) -> None:
        if self.kind not in {NATS, REDIS}:
            raise ConfigError(f"server {self.name!r}: kind {self.kind!r} is not a kind of server ({NATS}, {REDIS})")
        check_name(self.name)
        if self.jetstream and self.kind != NATS:
            raise ConfigError(f"server {self.name!r}: jetstream is NATS's; {self.kind} has none")
        if self.cluster is not None and self.kind != NATS:
            raise ConfigError(f"server {self.name!r}: a cluster is of NATS servers; {self.kind} has none")
        if self.monitor and self.kind != NATS:
            raise ConfigError(f"server {self.name!r}: a monitoring port is NATS's; {self.kind} has none")
        if self.guard is not None and self.user is not None:
            raise ConfigError(f"server {self.name!r}: user {self.user!r} is not let in by a guard, which knows roles")
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
        endpoint = Endpoint(self.kind, HOST, port, self.user, self.password, tls)
        return endpoint if self.guard is None else self.guard.let_in(endpoint)


class Server(Child):
    """One server process; `<name>/` below the state directory has its configuration and its data."""

    def __init__(self, spec: ServerSpec, state: Path) -> None:
        """Not running; see `start`."""
        super().__init__(spec.name, state)
        self.spec = spec
        self.kind = spec.kind
        self.data = state / spec.name / "data"
        self._config = state / spec.name / "server.conf"

    @classmethod
    async def start(cls, spec: ServerSpec, state: Path) -> "Server":
        """Return when it answers. Raises FleetError naming the log file, with its last lines, when it does not."""
        server = cls(spec, state)
        await server.restart()
        return server

    @property
    def endpoint(self) -> Endpoint:
        """The same over restarts; not known before the first start."""
        return self.spec.endpoint_at(self.spec.port)

    @property
    def url(self) -> str:
        return self.endpoint.url

    @property
    def monitor_url(self) -> str | None:
        return f"http://{HOST}:{self.spec.monitor_port}" if self.spec.monitor else None

    async def restart(self) -> None:
        """On the same port, with the same data."""
        if self._process is not None:
            await self._process.stop()
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            port = self.spec.port or free_port()
            monitor_port = self.spec.monitor_port or (free_port() if self.spec.monitor else 0)
            self._process = process = self._spawn(port, monitor_port)
            try:
                await self._until_ready(process, port)
            except _PortTaken:
                if (self.spec.port and (self.spec.monitor_port or not self.spec.monitor)) or attempt == _PORT_ATTEMPTS:
                    raise process.failure(f"port {port} is taken by another process") from None
            except BaseException:
                await process.kill()
                raise
            else:
                self.spec = replace(self.spec, port=port, monitor_port=monitor_port)
                return

    def _spawn(self, port: int, monitor_port: int) -> Process:
        self.data.mkdir(parents=True, exist_ok=True)
        at, tls = self.spec.endpoint_at(port), self.spec.tls
        if self.spec.kind == NATS:
            argv = [nats_program(), "-c", str(self._config)]
            text = nats_config(
                self.name,
                at,
                self.data,
                tls=tls,
                jetstream=self.spec.jetstream,
                monitor_port=monitor_port,
                output_bytes=self.spec.output_bytes,
                cluster=self.spec.cluster,
                guard=self.spec.guard,
            )
            for stale in self.data.glob("*.ports"):
                stale.unlink()
        else:
            argv = [redis_program(), str(self._config)]
            text = redis_config(at, self.data, tls=tls, output_bytes=self.spec.output_bytes, guard=self.spec.guard)
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
