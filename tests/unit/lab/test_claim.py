import pytest

from nearcast.lab.claim import Claim, Expectation, satisfies


@pytest.mark.parametrize(
    ("measured", "expected", "holds"),
    [
        (0, "== 0", True),
        (1, "== 0", False),
        (0, "!= 0", False),
        (1.6, ">= 1.60", True),
        (1.59, ">= 1.60", False),
        (2, "< 2", False),
        (1.999, "<2", True),
        (2, "<= 2", True),
        (2, "> 2", False),
        (-3, "> -4.5", True),
        (2e-7, "< 1e-6", True),
        (1, ">= 0 and < 2", True),
        (2, ">= 0 and < 2", False),
        (-1, ">= 0 and < 2", False),
    ],
)
def test_a_rule_compares_what_was_measured(measured: float, expected: str, holds: bool) -> None:
    assert satisfies(measured, expected) is holds


@pytest.mark.parametrize("expected", ["== 0", "!= 0", "< 2"])
def test_what_could_not_be_measured_keeps_no_rule(expected: str) -> None:
    assert not satisfies(None, expected)
    assert not satisfies(float("nan"), expected)


@pytest.mark.parametrize("rule", ["", "0", "= 0", "== zero", "< 2 ms", ">= 0 or < 2", "< 2 and", "=> 1"])
def test_a_rule_that_cannot_be_read_is_refused_when_it_is_written(rule: str) -> None:
    with pytest.raises(ValueError, match="is not a comparison with a number"):
        Expectation("DYN-3", "more players", rule)


def test_only_the_rule_decides_whether_a_claim_holds() -> None:
    expectation = Expectation("DYN-3", "players carried, against hashing", ">= 1.60")
    assert expectation.judge(1.72) == Claim("DYN-3", "players carried, against hashing", ">= 1.60", 1.72, holds=True)
    assert not expectation.judge(1.5).holds
