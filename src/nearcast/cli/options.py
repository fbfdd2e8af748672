"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from nearcast.domain.errors import ConfigError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The deployment's file; by default NEARCAST_CONFIG, ./nearcast.toml or ./.nearcast/nearcast.toml.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Site = Annotated[
    str, typer.Option("--site", metavar="NAME", help="The site this runs at: chooses the ways to brokers.")
]


def parse_retain(text: str | None) -> float | None:
    """Seconds, of `--retain`. Raises ConfigError."""
    if text is None:
        return None
    try:
        return float(text[:-1]) * _SECONDS[text[-1:]]
    except (ValueError, KeyError):
        raise ConfigError(f"--retain is {text!r}; expected a number and s, m, h or d, like 24h") from None
