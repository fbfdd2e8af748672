"""Options of commands that start Spark."""

from typing import Annotated

import typer

from nearcast.domain.errors import ConfigError

Master = Annotated[
    str,
    typer.Option(
        "--master",
        "--remote",
        metavar="URL",
        help="Where Spark runs: local[N], spark://..., yarn, k8s://..., or sc://HOST:PORT (Spark Connect).",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark; may be given many times.", show_default=False
    ),
]


def parse_conf(given: list[str] | None) -> dict[str, str]:
    """Raises ConfigError."""
    out: dict[str, str] = {}
    for each in given or ():
        key, equals, value = each.partition("=")
        if not (equals and key.startswith("spark.")):
            raise ConfigError(f"--conf {each!r}: expected KEY=VALUE, like spark.sql.shuffle.partitions=8")
        out[key] = value
    return out
