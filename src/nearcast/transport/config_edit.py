"""One figure of one broker in a configuration file, changed in its text: comments and order stay as they are."""

import re
import tomllib
from pathlib import Path

from nearcast.domain.errors import ConfigError

_TABLE = re.compile(r"^\s*\[")
_BROKER = re.compile(r"^\s*\[\[\s*broker\s*\]\]")


def with_figure(text: str, broker: str, key: str, value: float, source: str = "configuration") -> str:
    """The file with `key = value` in the `[[broker]]` of that name. Raises ConfigError where there is none."""
    lines = text.splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if _TABLE.match(line)]
    written = f"{key} = {value!r}\n"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        if not _BROKER.match(lines[start]):
            continue
        named = [at for at in range(start, end) if _value(lines[at], "name") == broker]
        if not named:
            continue
        old = [at for at in range(start, end) if re.match(rf"\s*{key}\s*=", lines[at])]
        if old:
            lines[old[0]] = written
        else:
            lines[named[0]] = lines[named[0]].rstrip("\n") + "\n" + written
        found = "".join(lines)
        _must_be_only_change(text, found, broker, key, value, source)
        return found
    raise ConfigError(f"{source}: no [[broker]] table with name = {broker!r} to write {key} into")


def write_figure(path: Path, broker: str, key: str, value: float) -> None:
    """At once: who reads the file meanwhile reads the old one or the new one."""
    text = with_figure(path.read_text(), broker, key, value, str(path))
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.chmod(path.stat().st_mode)
    part.replace(path)


def _value(line: str, key: str) -> object:
    try:
        return tomllib.loads(line).get(key)
    except tomllib.TOMLDecodeError:
        return None


def _must_be_only_change(before: str, after: str, broker: str, key: str, value: float, source: str) -> None:  # noqa: PLR0917
    wanted, found = tomllib.loads(before), tomllib.loads(after)
    for each in wanted["broker"]:
        if each["name"] == broker:
            each[key] = value
    if wanted != found:
        raise ConfigError(f"{source}: {key} of {broker!r} cannot be written without changing more: write it by hand")
