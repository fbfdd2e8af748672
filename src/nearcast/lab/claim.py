"""A claim of a paper, the rule by which it holds here, and what was measured."""

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

_COMPARISON = re.compile(r"(==|!=|<=|>=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


def satisfies(measured: float | None, expected: str) -> bool:
    """Whether `measured` keeps the rule `expected`: `== 0`, `>= 1.60`, or several, `>= 0 and < 2`.

    What could not be measured (None, or not a number) keeps no rule. ValueError when the rule cannot be read.
    """
    comparisons = []
    for part in expected.split(" and "):
        match = _COMPARISON.fullmatch(part.strip())
        if match is None:
            raise ValueError(
                f"rule {expected!r}: {part.strip()!r} is not a comparison with a number; "
                f"write one of {', '.join(OPERATORS)} and a number, joined by 'and'"
            )
        comparisons.append((OPERATORS[match[1]], float(match[2])))
    if measured is None or math.isnan(measured):
        return False
    return all(compare(measured, bound) for compare, bound in comparisons)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim after a run. `measured` is None when the run could not measure it; then it does not hold."""

    id: str
    statement: str
    expected: str
    measured: float | None
    holds: bool


@dataclass(frozen=True, slots=True)
class Expectation:
    """A claim before a run: what an experiment undertakes to measure, and the rule by which it holds.

    `id` is the paper's claim; one paper's claim may need several expectations, which then differ in their statements.
    """

    id: str
    statement: str
    expected: str

    def __post_init__(self) -> None:
        satisfies(None, self.expected)  # An unreadable rule is found when it is written, not after an hour's run.

    def judge(self, measured: float | None) -> Claim:
        """The claim with what was measured; only the rule decides whether it holds."""
        return Claim(self.id, self.statement, self.expected, measured, satisfies(measured, self.expected))
