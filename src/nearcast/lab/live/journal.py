"""A history that outlives its process: every event is in the file before the next thing happens."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from nearcast.domain.errors import WireError
from nearcast.sim.history import Event, History

_encode = msgspec.json.Encoder().encode


class Journal(History):
    """Appends to a file as well; a process that is killed leaves all it had written."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._append = self._write

    def _write(self, event: Event) -> None:
        os.write(self._fd, _encode(event) + b"\n")

    def close(self) -> None:
        os.close(self._fd)


def merge(paths: Iterable[Path], *events: Event) -> History:
    """One history of many journals, and `events` of one's own, by time. All processes must share one clock.

    A last line that was cut short by a kill is left out: what it was to say had not happened yet.
    """
    found: list[Event] = list(events)
    decoder = msgspec.json.Decoder()
    for path in paths:
        *lines, rest = path.read_bytes().split(b"\n")
        if rest:
            lines += [rest] if rest.endswith(b"]") else []
        for number, line in enumerate(lines, start=1):
            try:
                found.append(tuple(decoder.decode(line)))
            except msgspec.DecodeError as error:
                raise WireError(f"{path}, line {number}: {error}") from error
    found.sort(key=lambda event: event[1])
    history = History()
    history.events.extend(found)
    return history
