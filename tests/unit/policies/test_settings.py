"""What may be set, and the policies by name."""

from typing import Any

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.policies.registry import POLICIES, policy_named
from nearcast.policies.settings import Replication, Settings


def test_the_defaults_are_those_of_the_paper_and_its_authors() -> None:
    settings = Settings()
    assert (settings.high_ratio, settings.safe_ratio, settings.low_ratio, settings.wait_s) == (0.8, 0.6, 0.6, 20.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"safe_ratio": 0.9}, "safe_ratio 0.9, high_ratio 0.8"),
        ({"low_ratio": 0.0}, "low_ratio is 0.0"),
        ({"min_brokers": 0}, "min_brokers is 0"),
        ({"min_brokers": 3, "max_brokers": 2}, "max_brokers is 2, less than min_brokers"),
        ({"wait_s": -1.0}, "wait_s is -1.0"),
        ({"max_release": -1}, "max_release is -1"),
        ({"forward_messages_per_s": 0.0}, "forward_messages_per_s is 0.0"),
        ({"forward_bytes_per_s": -1.0}, "forward_bytes_per_s is -1.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"publications": 0.0}, "replication.publications is 0.0"),
        ({"most": 0}, "replication.most is 0"),
        ({"keep_ratio": 1.5}, "replication.keep_ratio is 1.5"),
    ],
)
def test_thresholds_that_cannot_be_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Replication(**wrong)


def test_policies_are_found_by_name() -> None:
    assert policy_named("dynamoth") is POLICIES["dynamoth"]
    with pytest.raises(ConfigError, match="policy 'best' is not known; there are all-pairs, bad-groups, bad-ldm"):
        policy_named("best")
