"""Free ports of the loopback interface."""

import random
import socket
from collections import deque
from pathlib import Path

HOST = "127.0.0.1"
_LOWEST = 15_000
_ATTEMPTS = 100

# A fleet with many links asks for a thousand before it uses the first, and two of that many would be alike by chance.
_given: deque[int] = deque(maxlen=5_000)


def free_port() -> int:
    """A port that nobody has now, and that this process was not given lately.

    Somebody may have taken it before it is used: who uses it must be ready to retry.

    It is below the range from which the kernel takes the local ports of outgoing connections, where that leaves room.
    A server there can be away for a while: no connection takes its port meanwhile, and a client that tries to
    reconnect cannot, by chance, be given the very port it connects to, and so be connected to itself.
    """
    chance = random.SystemRandom()
    for _ in range(_ATTEMPTS):
        port = chance.randrange(_LOWEST, _ephemeral_start()) if _ephemeral_start() > _LOWEST + 1000 else 0
        if (port := _bindable(port)) and port not in _given:
            _given.append(port)
            return port
    raise OSError(f"no free port found on {HOST} in {_ATTEMPTS} attempts")


def is_free(port: int) -> bool:
    """Whether nobody has this port now, not even somebody who would share it."""
    return _bindable(port) != 0


def _bindable(port: int) -> int:
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((HOST, port))
        except OSError:
            return 0
        return int(attempt.getsockname()[1])


def _ephemeral_start() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 0
