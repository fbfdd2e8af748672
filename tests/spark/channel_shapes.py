"""Queries of many shapes over two datasets, and data for them."""

import random
from pathlib import Path
from typing import Any

DATASETS = {
    "reports": "id INT, kind STRING, severity INT, weight DOUBLE, city STRING",
    "shelters": "id INT, kind STRING, beds INT",
}
PARAMETERS = ("kind STRING", "least INT")

_TEXTS = Path(__file__).with_suffix(".sql").read_text().split("-- shape: ")[1:]
SHAPES = {name: text.strip() for name, text in (each.split("\n", 1) for each in _TEXTS)}


def rows(chance: random.Random) -> dict[str, list[tuple[Any, ...]]]:
    """Few different values, nulls among them."""

    def some(value: Any) -> Any:
        return None if chance.random() < 0.1 else value

    def report(number: int) -> tuple[Any, ...]:
        weight = some(chance.randrange(20) / 4)
        return number, some(chance.choice("abc")), some(chance.randrange(4)), weight, some(chance.choice("xyz"))

    def shelter(number: int) -> tuple[Any, ...]:
        return number, some(chance.choice("abd")), some(chance.randrange(4))

    return {"reports": [report(number) for number in range(25)], "shelters": [shelter(number) for number in range(8)]}


def asked(chance: random.Random) -> list[dict[str, Any]]:
    """Two of them share all but one parameter."""
    found: list[dict[str, Any]] = [{"kind": chance.choice("abcd"), "least": chance.randrange(4)} for _ in range(3)]
    found.append({**found[0], "least": (found[0]["least"] + 1) % 4})
    return [each for number, each in enumerate(found) if each not in found[:number]]
