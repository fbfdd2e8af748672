"""`nearcast token`: who may use API and dashboard."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from nearcast.cli.api import TOKEN, pages_of, token_of
from nearcast.cli.options import AsJson, ConfigFile, parse_seconds
from nearcast.cli.output import print_json, print_table
from nearcast.domain.errors import ConfigError
from nearcast.transport.config import Config, load_config
from nearcast.transport.tokens import ApiRole, Token, Tokens

app = typer.Typer(help="Tokens for API and dashboard: viewers look, operators act.", no_args_is_help=True)


@app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Whose it is. One of the same name is replaced.")],
    *,
    role: Annotated[ApiRole, typer.Option(help="What it may do.")] = ApiRole.VIEWER,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="After how long it ends, like 12h; by default never.")
    ] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a token, and print it: it cannot be shown again."""
    lasting_s = parse_seconds("--expires", expires)
    if lasting_s is not None and not 0 < lasting_s < 1e9:
        raise ConfigError(f"--expires is {expires!r}; expected more than 0, and less than 30 years")
    secret = _tokens(load_config(config)).add(name, role, lasting_s=lasting_s)
    if as_json:
        print_json({"name": name, "role": role, "token": secret})
    else:
        print(secret)


@app.command("list")
def list_tokens(*, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show which tokens there are; nobody can read them."""
    found = _tokens(load_config(config)).known()
    if as_json:
        print_json([{"name": each.name, "role": each.role, "expires_s": each.expires_s} for each in found])
    else:
        print_table(("name", "role", "ends"), [(each.name, each.role, _ends(each)) for each in found])


@app.command("revoke")
def revoke_token(name: Annotated[str, typer.Argument(help="Whose token.")], *, config: ConfigFile = None) -> None:
    """End a token: it is refused from the next request on."""
    if not _tokens(load_config(config)).revoke(name):
        raise ConfigError(f"there is no token {name!r}; `nearcast token list` shows them")


@app.command("link")
def show_link(*, config: ConfigFile = None) -> None:
    """Print the dashboard's address with the operator's token: whoever has it may do everything."""
    loaded = load_config(config)
    _tokens(loaded)
    secret = token_of(loaded)
    if not secret:
        raise ConfigError(f"{loaded.path}: no token is known: set {TOKEN}, or web.token_file")
    for page in pages_of(loaded):
        print(_link(page, secret))


def dashboard_link(page: str, config: Config) -> str:
    """Of a fleet that was started here: with the operator's token, where it asks for one."""
    return page if config.web.tokens is None else _link(page, token_of(config))


def _link(page: str, secret: str) -> str:
    return f"{page}/?token={secret}"


def _tokens(config: Config) -> Tokens:
    if config.web.tokens is None:
        raise ConfigError(f"{config.path}: web.tokens_file is missing: this fleet's API lets in anybody")
    return Tokens(config.web.tokens)


def _ends(token: Token) -> str:
    if token.expires_s is None:
        return "never"
    ended = datetime.fromtimestamp(token.expires_s, UTC).isoformat(timespec="seconds")
    return f"{ended} (expired)" if token.expires_s <= time.time() else ended
