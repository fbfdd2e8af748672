"""Model files, and how they are shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.output import print_table
from nearcast.domain.errors import ModelError
from nearcast.predict.latency_model import Accuracy, LatencyModel, Network, model_from_json

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `nearcast model train` wrote.")]


def read_model(path: Path) -> LatencyModel:
    """Raises ModelError, with the path."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    return model_from_json(text, str(path))


def write_model(path: Path, model: LatencyModel) -> None:
    """There as a whole or not at all: a fleet may be reading it."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(model.to_json())
        partial.rename(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror}") from error


def layers(model: LatencyModel, topics: int) -> str:
    regressor = model.fits[topics - 1].regressor
    if isinstance(regressor, Network):
        return " x ".join(str(len(each)) for each in regressor.biases[:-1])
    return f"degree {regressor.degree}"


def print_accuracy(columns: Sequence[tuple[str, Sequence[Accuracy]]]) -> None:
    """Of several models or none, one below the other."""
    print_table(
        ("", "topics", "rows", "R2", "median error", "p90 error", "late, not foretold", "foretold, not late"),
        [
            (
                name,
                str(each.topics),
                str(each.rows),
                f"{each.r2:.3f}",
                f"{each.median_error:.1%}",
                f"{each.p90_error:.1%}",
                f"{each.missed:.1%}",
                f"{each.spurned:.1%}",
            )
            for name, found in columns
            for each in found
        ],
    )
