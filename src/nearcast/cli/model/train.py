"""`nearcast model train`."""

import contextlib
import enum
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli.model.files import layers, print_accuracy, write_model
from nearcast.cli.options import AsJson, parse_seconds
from nearcast.cli.output import print_json
from nearcast.cli.pipeline.options import Conf, parse_conf
from nearcast.domain.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.pipeline.latency_fit import Inputs
    from nearcast.pipeline.training import Curve

_MOST = 6


class Kind(enum.StrEnum):
    PAPER = "paper"
    QUEUE = "queue"


_INPUTS: "dict[Kind, Inputs]" = {Kind.PAPER: "colocated", Kind.QUEUE: "queueing"}


def train_model(
    rows: Annotated[
        list[Path] | None,
        typer.Argument(metavar="ROWS...", help="Parquet files, or folders of them.", show_default=False),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The model file.", dir_okay=False)],
    kind: Annotated[
        Kind,
        typer.Option(help="Which to write: the paper's six inputs, or those and what a queue tells. Both are judged."),
    ] = Kind.QUEUE,
    name: Annotated[str | None, typer.Option(help="The model's name; by default that of its file.")] = None,
    snapshots: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Also snapshots of a fleet: files, a folder or a pattern.", show_default=False
        ),
    ] = None,
    window: Annotated[str, typer.Option(metavar="TIME", help="Of snapshots: a run is one broker so long.")] = "60s",
    cores: Annotated[int, typer.Option(min=1, help="Of snapshots: the brokers' cores.")] = 1,
    choose: Annotated[
        bool, typer.Option("--choose", help="Choose each network's layers by learning curves; else the paper's.")
    ] = False,
    curves: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw the learning curves.", dir_okay=False, show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the networks' first weights.")] = 0,
    spark: Annotated[
        str | None, typer.Option("--spark", metavar="URL", help="Fit on Spark, a task per network.", show_default=False)
    ] = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Learn how late topics are that share a broker, for each number of them, and write a model file.

    What judges is marked in the rows since they were collected, and is never learned from; simulated rows never judge.
    Shown are, for the paper's inputs and for those with a queue's: R2 of the logarithm of the 90th percentile, the
    median and the 90th percentile of relative errors, and the topics on the wrong side of one second.
    """
    if not rows and snapshots is None:
        raise ConfigError("nothing to learn from: name ROWS, or --snapshots")
    _must_exist(out)
    from nearcast.pipeline import training  # noqa: PLC0415  # extras
    from nearcast.pipeline.latency_fit import HIDDEN  # noqa: PLC0415
    from nearcast.pipeline.measurements import Rows  # noqa: PLC0415
    from nearcast.pipeline.session import LOCAL, session  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        files, over = list(rows or ()), None
        if snapshots is not None or spark is not None:
            begun = stack.enter_context(session("model train", spark or LOCAL, parse_conf(conf)))
            if snapshots is not None:
                files.append(_kept(begun, snapshots, window, cores, Path(stack.enter_context(_folder()))))
            over = training.on_spark(begun) if spark is not None else None
        read = Rows(files)
        given = training.material(read, seed=seed)
        several = [topics for topics in given.sets if topics > 1]
        found = training.curves(given, _INPUTS[kind], several) if choose or curves is not None else []
        hidden = {**HIDDEN, **training.chosen(found)} if choose else HIDDEN
        title = name or out.stem
        models = {each: training.train(given, _INPUTS[each], name=title, hidden=hidden, over=over) for each in Kind}
    write_model(out, models[kind])
    if curves is not None:
        _draw(curves, found)
    if as_json:
        print_json(
            {
                "model": str(out),
                "kind": kind,
                "processors": given.processors,
                "origin": given.origin,
                "layers": {topics: layers(models[kind], topics) for topics in given.sets},
                "accuracy": {each: model.accuracy for each, model in models.items()},
                "curves": found,
            }
        )
        return
    of = given.processors
    print(f"a message costs {of.overhead_ms:.2f} ms beside its interval, and is {of.delay_ms:.2f} ms under way")
    if given.validation:
        print_accuracy([(each, model.accuracy) for each, model in models.items()])
    else:
        print("no real runs are set apart to judge by: how near the model is, is not known")
    print(f"{out}: {kind}, up to {models[kind].most} topics, learned from {given.rows:,} rows")


def _must_exist(out: Path) -> None:
    """Told before minutes are spent."""
    if not out.absolute().parent.is_dir():
        raise ModelError(f"{out}: there is no folder {out.absolute().parent}")


def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="nearcast-model-")


def _kept(spark: "SparkSession", snapshots: str, window: str, cores: int, folder: Path) -> Path:
    from nearcast.pipeline.telemetry import rows_from_snapshots  # noqa: PLC0415

    window_s = parse_seconds("--window", window)
    assert window_s is not None
    found = rows_from_snapshots(spark, snapshots, window_s=window_s, cores=cores, most=_MOST)
    found.write.mode("overwrite").parquet(str(folder))
    return folder


def _draw(path: Path, found: "list[Curve]") -> None:
    from nearcast.lab.learning import draw_curves  # noqa: PLC0415
    from nearcast.lab.result import draw_figure  # noqa: PLC0415

    try:
        draw_figure(path, lambda figure: draw_curves(found, figure))
    except ImportError as error:
        raise ConfigError("--curves needs matplotlib: pip install 'nearcast[lab]'") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be drawn: {error}") from error
