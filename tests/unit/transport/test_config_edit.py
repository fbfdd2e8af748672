"""A figure written into a configuration file leaves everything else as it is."""

import tomllib

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.transport.config_edit import with_figure

TEXT = """key_file = "key"  # kept

[control]
url = "nats://127.0.0.1:4222"

[[broker]]
name = "b1"  # the first
url = "nats://127.0.0.1:4223"

[[broker]]
url = "nats://127.0.0.1:4224"
out_messages_per_s = 5.0
name = "b2"

[timing]
lease_s = 4.0
"""


@pytest.mark.parametrize("broker", ["b1", "b2"])
def test_only_the_figure_of_that_broker_changes(broker: str) -> None:
    found = with_figure(TEXT, broker, "out_messages_per_s", 1234.0)
    brokers = {each["name"]: each.get("out_messages_per_s") for each in tomllib.loads(found)["broker"]}
    assert brokers == {"b1": None, "b2": 5.0} | {broker: 1234.0}
    assert "# kept" in found
    assert "# the first" in found
    assert with_figure(found, broker, "out_messages_per_s", 1234.0) == found


def test_a_broker_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no \\[\\[broker\\]\\] table with name = 'b9'"):
        with_figure(TEXT, "b9", "out_messages_per_s", 1.0)
