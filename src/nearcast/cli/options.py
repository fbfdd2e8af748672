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


Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why: kept with the order, and shown in the decisions.")
]


def parse_seconds(option: str, text: str | None) -> float | None:
    """Of an option like `--retain 24h`. Raises ConfigError."""
    if text is None:
        return None
    try:
        return float(text[:-1]) * _SECONDS[text[-1:]]
    except (ValueError, KeyError):
        raise ConfigError(f"{option} is {text!r}; expected a number and s, m, h or d, like 24h") from None


def read_text(option: str, given: str) -> str:
    """What was given, or what the file has that `@FILE` names. Raises ConfigError."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {given}: {error}") from error
