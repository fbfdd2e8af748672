"""A write-ahead file: what a feed was handed and answered for, until it is in its table; its keys a while longer.

    FOLDER/0000000001.log     one line per entry: {"key": ..., "texts": [...]}

An entry is there when its line is whole; what a killed process left of one was never answered for, and is cut off.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nearcast.domain.errors import PipelineError

_SEGMENT_BYTES = 64 << 20


class Entry(msgspec.Struct, frozen=True):
    texts: tuple[str, ...]
    key: str | None = None


class Spot(msgspec.Struct, frozen=True, order=True):
    """How far it has been read: what begins at this byte of this segment is next."""

    segment: int = 1
    byte: int = 0

    def __str__(self) -> str:
        return f"{self.segment}:{self.byte}"

    @classmethod
    def parse(cls, text: str) -> "Spot":
        segment, _, byte = text.partition(":")
        return cls(int(segment), int(byte))


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)


class Wal:
    """One process writes it. Every method blocks, for as long as the disk takes."""

    def __init__(self, folder: Path, segment_bytes: int = _SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._segment = max(self._segments(), default=1)
        path = self._path(self._segment)
        if path.exists():
            _cut_off(path)
        self._file = path.open("ab")
        _sync_folder(folder)

    def append(self, entries: Sequence[Entry]) -> None:
        """They are on disk when this returns. Raises OSError, and then none of them is there."""
        if self._file.tell() >= self._segment_bytes:
            self._file.close()
            self._segment += 1
            self._file = self._path(self._segment).open("ab")
            _sync_folder(self._folder)
        whole = self._file.tell()
        try:
            self._file.write(b"".join(_encoder.encode(entry) + b"\n" for entry in entries))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(whole)
            raise

    def read(self, spot: Spot, most: int) -> tuple[list[Entry], Spot]:
        """Entries from `spot` on, some `most` texts of them, and where the next begins. Raises PipelineError."""
        out: list[Entry] = []
        count = 0
        while True:
            path = self._path(spot.segment)
            if not path.exists():
                raise PipelineError(f"{path}: is not there, but not all of it was read")
            with path.open("rb") as lines:
                lines.seek(spot.byte)
                for line in lines:
                    if not line.endswith(b"\n"):
                        break  # being written now
                    entry = _decoder.decode(line)
                    out.append(entry)
                    count += len(entry.texts)
                    spot = Spot(spot.segment, spot.byte + len(line))
                    if count >= most:
                        return out, spot
            if spot.segment >= self._segment:
                return out, spot
            spot = Spot(spot.segment + 1)

    def keys(self) -> dict[str, int]:
        """Of all entries that are still there, with the number of their texts."""
        out: dict[str, int] = {}
        for segment in self._segments():
            with self._path(segment).open("rb") as lines:
                for line in lines:
                    entry = _decoder.decode(line)
                    if entry.key is not None:
                        out[entry.key] = len(entry.texts)
        return out

    def forget(self, before: Spot, older_than_s: float) -> None:
        """Removes whole segments that were read, and last written before that time. Their keys are forgotten."""
        for segment in self._segments():
            path = self._path(segment)
            if segment < min(before.segment, self._segment) and path.stat().st_mtime < older_than_s:
                path.unlink()

    def close(self) -> None:
        self._file.close()

    def _segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob("*.log"))

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:010d}.log"


def _cut_off(path: Path) -> None:
    """What is behind the last whole line."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as out:
            out.truncate(whole)
            os.fsync(out.fileno())


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
