"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

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
