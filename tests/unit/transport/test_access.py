"""Which credentials a process uses, and where it has them from."""

from pathlib import Path

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.transport.access import Role
from nearcast.transport.config import BUS, load_config

TEXT = """
[control]
url = "nats://127.0.0.1:4222"

[access.client]
user = "ann"
password_file = "secrets/client"

[access.coordinator]
user = "boss"

[[broker]]
name = "edge1"
url = "nats://127.0.0.1:4223"
servers = ["nats://127.0.0.1:4224"]

[[broker]]
name = "edge2"
url = "redis://other:own@127.0.0.1"

[[way]]
site = "paris"
broker = "edge1"
url = "nats://127.0.0.1:5001"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEARCAST_KEY", "ab" * 16)
    monkeypatch.setenv("NEARCAST_COORDINATOR_PASSWORD", "from-environment")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "client").write_text("from-file\n")
    path = tmp_path / "nearcast.toml"
    path.write_text(TEXT)
    return path


def test_a_file_that_is_loaded_is_a_clients(file: Path) -> None:
    config = load_config(file)
    for endpoint in (*config.servers("edge1"), config.endpoints("paris")("edge1"), config.added("nats://later")):
        assert (endpoint.user, endpoint.password) == ("ann", "from-file")
    own = config.endpoints()("edge2")
    assert (own.user, own.password) == ("other", "own"), "an address that says who we are there is believed"


def test_who_acts_in_another_role_has_its_credentials_everywhere(file: Path) -> None:
    config = load_config(file).acting(Role.COORDINATOR)
    for endpoint in (*config.servers("edge1"), config.endpoints()(BUS), config.control, config.added("nats://later")):
        assert (endpoint.user, endpoint.password) == ("boss", "from-environment")
    assert config.endpoints()("edge2").user == "other"
    assert config.acting(Role.CLIENT) == load_config(file)


def test_a_role_that_is_not_in_the_file_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"access\.agent is missing: this needs to be let in as the agent"):
        load_config(file).acting(Role.AGENT)


def test_without_the_table_nobody_is_asked_who_they_are(file: Path) -> None:
    bare = "\n\n".join(part for part in TEXT.split("\n\n") if "access" not in part)
    file.write_text(bare)
    assert load_config(file).acting(Role.AGENT).control.user is None


def test_passwords_are_shown_by_nothing(file: Path) -> None:
    config = load_config(file)
    assert "from-file" not in repr(config)
    assert "from-environment" not in repr(config.acting(Role.COORDINATOR))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("[access.client]", "[access.boss]"), "access.boss is not known; one of client, agent, coordinator"),
        (("secrets/client", "secrets/none"), r"password_file '.*none' cannot be read: No such file"),
        (('password_file = "secrets/client"', ""), "password_file is missing, and NEARCAST_CLIENT_PASSWORD is not set"),
        (('user = "ann"\n', ""), "missing required field `user`"),
        (('password_file = "', 'password = "'), "unknown field `password`"),
    ],
)
def test_what_is_wrong_with_it_is_said(file: Path, change: tuple[str, str], complaint: str) -> None:
    file.write_text(TEXT.replace(*change))
    with pytest.raises(ConfigError, match=complaint):
        load_config(file)


def test_an_empty_password_is_none(file: Path) -> None:
    (file.parent / "secrets" / "client").write_text("\n")
    with pytest.raises(ConfigError, match="holds no password"):
        load_config(file)
