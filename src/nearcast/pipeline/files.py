"""A table's folder: how manifests are written so that they last, and how files leave.

NAME-ID/manifests/0000000012-5f0c....json     named by the pointer in the store
NAME-ID/data/0000000012-9ab1.../part-....     named by a manifest
"""

import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from nearcast.domain.errors import PipelineError
from nearcast.pipeline.manifest import Manifest

DATA = "data"
_MANIFESTS = "manifests"
_UNFINISHED_S = 86_400.0  # no job takes longer

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Manifest)


def write_manifest(folder: Path, name: str, manifest: Manifest) -> None:
    """It is on disk when this returns."""
    into = folder / _MANIFESTS
    into.mkdir(parents=True, exist_ok=True)
    path = into / name
    with path.open("xb") as out:
        out.write(_encoder.encode(manifest))
        out.flush()
        os.fsync(out.fileno())
    sync(into)


def read_manifest(folder: Path, name: str) -> Manifest:
    """Raises PipelineError."""
    path = folder / _MANIFESTS / name
    try:
        return _decoder.decode(path.read_bytes())
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}; is this the folder of the pipeline?") from error
    except msgspec.MsgspecError as error:
        raise PipelineError(f"{path}: is no manifest: {error}") from error


def remove_files(folder: Path, gone: Iterable[str], known: Collection[str], newest: str, before_s: float) -> int:
    """`gone` ones, and those that nobody knows and that are older than `before_s`; likewise manifests but the newest.

    Returns how many data files.
    """
    count = 0
    for name in gone:
        (folder / name).unlink(missing_ok=True)
        count += 1
    for path in (folder / DATA).glob("*/*"):
        if path.is_dir():  # what Spark has not finished, and perhaps never will
            if _older(path, before_s - _UNFINISHED_S):
                shutil.rmtree(path, ignore_errors=True)
        elif str(path.relative_to(folder)) not in known and _older(path, before_s):
            path.unlink(missing_ok=True)
            count += 1
    for directory in (folder / DATA).glob("*"):
        if _older(directory, before_s) and not any(directory.iterdir()):
            directory.rmdir()
    for path in (folder / _MANIFESTS).glob("*"):
        if path.name != newest and _older(path, before_s):
            path.unlink(missing_ok=True)
    return count


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def sync(directory: Path) -> None:
    """Its files, and itself: what was renamed into a folder lasts once the folder does."""
    for path in (*(each for each in directory.iterdir() if each.is_file()), directory):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _older(path: Path, than_s: float) -> bool:
    try:
        return path.stat().st_mtime < than_s
    except FileNotFoundError:
        return False
