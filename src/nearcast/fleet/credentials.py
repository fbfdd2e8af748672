"""The secrets of a local fleet: made once, kept in its state directory, one file each, for its owner's eyes."""

import secrets
from collections.abc import Callable
from pathlib import Path

from nearcast.domain.errors import FleetError
from nearcast.transport.access import Role
from nearcast.transport.tokens import ApiRole, Tokens, new_token

FOLDER = "credentials"
TOKENS = f"{FOLDER}/tokens"
NOTICES = f"{FOLDER}/notices"  # the key with which agents sign
PEER = "peer"  # what servers of one cluster know each other by


def kept_secret(file: Path, make: Callable[[], str] = lambda: secrets.token_urlsafe(32)) -> str:
    """What the file holds; it is made if it is absent, and readable by its owner only. Raises FleetError."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(f"{make()}\n")
        file.chmod(0o600)
        return file.read_text().strip()
    except OSError as error:
        raise FleetError(f"{file}: a secret cannot be kept there: {error.strerror}") from error


def make_tokens(state: Path) -> None:
    """One for API and dashboard of each role, in a file of its own beside the digests that coordinators read."""
    tokens = Tokens(state / TOKENS)
    for role in ApiRole:
        secret = kept_secret(token_file(tokens.file, role), new_token)
        if tokens.owner(secret) is None:
            tokens.add(role, role, secret=secret)


def token_file(tokens: Path, role: ApiRole) -> Path:
    """Where a local fleet keeps the token of this role; `tokens` is the file of digests."""
    return tokens.with_name(f"api-{role}")


def tenant_file(name: str) -> Path:
    """Where its password is, in the state directory."""
    return Path(FOLDER, "tenants", name)


def role_passwords(state: Path) -> dict[Role, str]:
    return {role: kept_secret(state / FOLDER / role) for role in Role}
