"""Snapshots from files."""

from pathlib import Path

from nearcast.domain.errors import ConfigError
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.snapshot_json import read_snapshot


def snapshot_in(file: Path) -> Snapshot:
    """Raises ConfigError where it cannot be read, and SnapshotError where it is none."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    return read_snapshot(content, str(file))
