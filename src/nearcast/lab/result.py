"""The directory that a run leaves behind: `result.json`, a CSV per table, a PNG per figure."""

import csv
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from nearcast.domain.errors import NearcastError
from nearcast.lab.claim import Claim
from nearcast.lab.experiment import Draw, Mode, Outcome, RunSettings, Table

RESULT_FILE = "result.json"
RESULTS_ROOT = Path("out/lab")
PARTIAL = ".partial-"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """What `result.json` holds. `artifacts` are the other files of its directory."""

    experiment: str
    mode: Mode
    seed: int
    quick: bool
    claims: tuple[Claim, ...]
    metrics: dict[str, Any]
    artifacts: tuple[str, ...]
    command: str = ""  # what makes it again; earlier versions did not say

    def to_json(self) -> bytes:
        """The bytes of `result.json`."""
        return msgspec.json.format(msgspec.json.encode(self, enc_hook=_plain), indent=2) + b"\n"


def command_for(experiment: str, settings: RunSettings) -> str:
    """What to type for the same run. Files are named as they were given."""
    given = {
        "mode": settings.mode,
        "seed": settings.seed,
        "seeds": settings.seeds,
        "brokers": settings.brokers,
        "latency-matrix": settings.latency_matrix and settings.latency_matrix.name,
        "popularity": settings.popularity and settings.popularity.name,
        "duration": settings.duration_s and f"{settings.duration_s:g}",
        "rate": settings.rate_hz and f"{settings.rate_hz:g}",
        "scale": settings.scale and f"{settings.scale:g}",
    }
    switches = ("quick", "faults", "elastic", "recorded")
    parts = [f"--{name} {value}" for name, value in given.items() if value is not None]
    parts += [f"--{name}" for name in switches if getattr(settings, name)]
    parts += ["--data DIR"] if settings.data is not None else []
    parts += ["--spark"] if settings.spark is not None else []
    return " ".join(("nearcast lab run", experiment, *parts))


def run_directory(root: Path, experiment: str, settings: RunSettings) -> Path:
    """Where a run goes when nobody says where: one directory per way of running, so that the last of each is kept."""
    variant = "-".join(
        (
            settings.mode,
            *((settings.brokers,) if settings.brokers else ()),
            *(("faults",) if settings.faults else ()),
            *(("elastic",) if settings.elastic else ()),
            *(("matrix",) if settings.latency_matrix else ()),
            *(("popularity",) if settings.popularity else ()),
            *(("followers",) if settings.followers else ()),
            *(("quick",) if settings.quick else ()),
        )
    )
    return root / experiment / variant


def check_writable(directory: Path) -> None:
    """Make the directory; NearcastError when nothing can be written there. Worth asking before a long run."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=directory, prefix=PARTIAL):
            pass
    except OSError as error:
        raise _unwritable(directory, error) from error


def write_result(directory: Path, experiment: str, settings: RunSettings, outcome: Outcome) -> Result:
    """Write a run's directory, over an earlier run's; files that are not of a run stay.

    `result.json` is written last and at once, and is absent while the other files are replaced: who finds one finds
    all that it names. Without matplotlib the figures are left out, with a warning.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        stale = _artifacts_of(directory)
        with TemporaryDirectory(dir=directory, prefix=PARTIAL) as staging:
            artifacts = tuple(_write_artifacts(Path(staging), outcome))
            result = Result(
                experiment,
                settings.mode,
                settings.seed,
                settings.quick,
                outcome.claims,
                dict(outcome.metrics),
                artifacts,
                command_for(experiment, settings),
            )
            (Path(staging) / RESULT_FILE).write_bytes(result.to_json())
            (directory / RESULT_FILE).unlink(missing_ok=True)
            for name in (*artifacts, RESULT_FILE):
                os.replace(Path(staging) / name, directory / name)  # noqa: PTH105 its name says what matters: atomic
        for name in stale:
            if name not in artifacts:
                (directory / name).unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(directory, error) from error
    return result


def read_result(directory: Path) -> Result:
    """The result in a directory; NearcastError, with the file, when there is none or it cannot be read."""
    path = directory / RESULT_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except OSError as error:
        raise NearcastError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise NearcastError(f"{path} is not a result: {error}; run the experiment again, or delete it") from error


def results_under(root: Path) -> list[Result]:
    """Every result in any directory below `root`, the one written last first."""
    return [result for _, result in located_results(root)]


def located_results(root: Path) -> list[tuple[Path, Result]]:
    """The same, each with its directory."""
    paths = [path for path in root.rglob(RESULT_FILE) if not path.parent.name.startswith(PARTIAL)]
    paths.sort(key=lambda path: (-path.stat().st_mtime_ns, path))
    return [(path.parent, read_result(path.parent)) for path in paths]


def _artifacts_of(directory: Path) -> tuple[str, ...]:
    """The files of the earlier run, as far as it can be read. Names that lead elsewhere are not ours to delete."""
    try:
        return tuple(name for name in read_result(directory).artifacts if Path(name).name == name)
    except NearcastError:
        return ()


def _unwritable(directory: Path, error: OSError) -> NearcastError:
    return NearcastError(f"cannot write a result to {directory}: {error.strerror or error}; choose another directory")


def _plain(value: object) -> object:
    """A number of numpy's as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError


def _write_artifacts(directory: Path, outcome: Outcome) -> Iterator[str]:
    for name, table in outcome.tables.items():
        _write_csv(directory / _file_name(name, "csv"), table)
        yield _file_name(name, "csv")
    if outcome.figures and find_spec("matplotlib") is None:
        log.warning("figures not drawn: %s; install matplotlib (the extra `lab`)", ", ".join(outcome.figures))
        return
    yield from _draw_all(directory, outcome.figures)


def _write_csv(path: Path, table: Table) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(table.rows)


def _draw_all(directory: Path, figures: Mapping[str, Draw]) -> Iterator[str]:
    for name, draw in figures.items():
        draw_figure(directory / _file_name(name, "png"), draw)
        yield _file_name(name, "png")


def draw_figure(path: Path, draw: Draw) -> None:
    """Needs matplotlib, the extra `lab`."""
    from matplotlib.figure import Figure  # noqa: PLC0415 slow to import, and an extra

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    draw(figure)
    # Without the library's version in it, the same run gives the same bytes.
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _file_name(name: str, suffix: str) -> str:
    if Path(name).name != name or name.startswith("."):
        raise ValueError(f"{name!r} names a table or figure, but is not a plain file name")
    return f"{name}.{suffix}"
