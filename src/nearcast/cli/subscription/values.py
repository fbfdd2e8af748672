"""Values of a channel's parameters, as people write them."""

from typing import Annotated

import typer

from nearcast.client import Client
from nearcast.domain.channel import ParameterType, Value
from nearcast.domain.errors import ConfigError

Params = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="The value of a parameter; once for each of them."),
]
Keep = Annotated[
    float,
    typer.Option("--keep", metavar="SECONDS", min=0, help="For how long results are made on while nobody follows."),
]
KEEP_S = 3600.0

_WORDS = {"true": True, "false": False}


def parse_params(texts: list[str] | None) -> dict[str, str]:
    """Raises ConfigError."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"--param is {text!r}; expected NAME=VALUE, like kind=fire")
        if name in found:
            raise ConfigError(f"--param: {name!r} has two values")
        found[name] = value
    return found


async def typed(client: Client, channel: str, texts: dict[str, str]) -> dict[str, Value]:
    """By the types that the channel has. What does not fit stays text, and is refused with the reason."""
    types = {each.name: each.type for each in (await client.describe_channel(channel)).parameters}
    return {name: _value(types.get(name), text) for name, text in texts.items()}


def _value(kind: ParameterType | None, text: str) -> Value:
    try:
        match kind:
            case ParameterType.INT | ParameterType.BIGINT:
                return int(text)
            case ParameterType.DOUBLE:
                return float(text)
            case ParameterType.BOOLEAN:
                return _WORDS.get(text.lower(), text)
            case _:
                return text
    except ValueError:
        return text
