"""`nearcast model predict`."""

from typing import Annotated

import numpy as np
import typer

from nearcast.cli.model.files import ModelFile, read_model
from nearcast.cli.options import AsJson
from nearcast.cli.output import HOLDS, print_json, print_table
from nearcast.domain.errors import ConfigError


def predict_latency(
    file: ModelFile,
    topics: Annotated[
        list[str], typer.Argument(metavar="INTERVAL:RATE...", help="A topic: ms per message, and messages per second.")
    ],
    *,
    bound: Annotated[float, typer.Option(metavar="MS", min=0.001, help="What is promised of each.")] = 1000.0,
    as_json: AsJson = False,
) -> None:
    """Foretell the 90th percentile of topics that share one broker, like `20:15 10:40`.

    Exit code 1 when one of them would break its promise.
    """
    model = read_model(file)
    if len(topics) > model.most:
        raise ConfigError(f"{len(topics)} topics; {file} foretells up to {model.most} together")
    told = np.array([_topic(each) for each in topics])
    p90_ms = model.p90_ms(told[None, :, 0], told[None, :, 1])[0].tolist()
    keeps = [each <= bound for each in p90_ms]
    if as_json:
        columns = zip(told.tolist(), p90_ms, keeps, strict=True)
        found = [
            {"interval_ms": interval_ms, "rate_hz": rate_hz, "p90_ms": round(ms, 3), "keeps": keep}
            for (interval_ms, rate_hz), ms, keep in columns
        ]
        busy = float(model.processors.busy(told[:, 0], told[:, 1]))
        print_json({"model": model.name, "bound_ms": bound, "busy": round(busy, 4), "topics": found})
    else:
        print_table(
            ("interval ms", "rate Hz", "p90 ms", f"within {bound:g} ms"),
            [
                (f"{interval_ms:g}", f"{rate_hz:g}", f"{ms:.1f}", HOLDS[keep])
                for (interval_ms, rate_hz), ms, keep in zip(told.tolist(), p90_ms, keeps, strict=True)
            ],
        )
    if not all(keeps):
        raise typer.Exit(1)


def _topic(text: str) -> tuple[float, float]:
    interval, colon, rate = text.partition(":")
    try:
        found = float(interval), float(rate)
    except ValueError:
        found = (0.0, 0.0)
    if not (colon and 0.0 < found[0] < np.inf and 0.0 < found[1] < np.inf):
        raise ConfigError(f"{text!r} is no topic: expected INTERVAL:RATE, ms and messages per second, like 20:15")
    return found
