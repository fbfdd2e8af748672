import pytest

from nearcast.domain.errors import ConfigError
from nearcast.domain.slo import Slo


@pytest.mark.parametrize(("text", "slo"), [("p95:40ms", Slo(95, 40.0)), ("p99:1.5s", Slo(99, 1500.0))])
def test_a_promise_is_read_and_written(text: str, slo: Slo) -> None:
    assert Slo.parse(text) == slo
    assert Slo.parse(str(slo)) == slo


@pytest.mark.parametrize("text", ["", "40ms", "p95", "p95:40", "p95:-1ms", "p95:0ms", "p42:40ms", "p95:40ms!"])
def test_what_is_no_promise_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ConfigError, match="slo: "):
        Slo.parse(text)
