"""Where a process finds brokers that are in its file, and brokers that are not."""

from pathlib import Path

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.transport.config import BUS, load_config, new_key
from nearcast.transport.directory import Directory

FILE = """
key_file = "key"

[control]
url = "nats://127.0.0.1:4222"

[[broker]]
name = "edge1"
url = "nats://127.0.0.1:4223"
site = "paris"

[[way]]
site = "paris"
broker = "edge1"
url = "nats://127.0.0.1:5001"
"""


def directory(folder: Path, more: str = "", *, site: str = "") -> Directory:
    (folder / "key").write_text(new_key())
    path = folder / "nearcast.toml"
    path.write_text(FILE + more)
    return Directory(load_config(path), site)


def test_a_broker_that_is_not_in_the_file_is_found_once_it_is_told_of(tmp_path: Path) -> None:
    where = directory(tmp_path)
    with pytest.raises(ConfigError, match="no broker 'new'; brokers are edge1"):
        where("new")
    where.learn((("new", "redis://10.0.0.9:7000"),))
    assert where("new").url == "redis://10.0.0.9:7000"
    where.learn((("new", "redis://10.0.0.9:7001"),))
    assert where("new").url == "redis://10.0.0.9:7001", "it came back elsewhere"


def test_what_is_told_goes_over_the_file_and_a_way_of_the_file_over_both(tmp_path: Path) -> None:
    for site, expected in (("", "nats://10.0.0.9:4000"), ("paris", "nats://127.0.0.1:5001")):
        where = directory(tmp_path, site=site)
        where.learn((("edge1", "nats://10.0.0.9:4000"),))
        assert where("edge1").url == expected
        assert where(BUS).url == "nats://127.0.0.1:4222"


def test_credentials_and_tls_are_the_processs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEARCAST_ADDED_PASSWORD", raising=False)
    (tmp_path / "ca.pem").write_text("authority")
    where = directory(tmp_path, '[tls]\nca_file = "ca.pem"\n[added]\nuser = "u"\npassword = "p"\n')
    where.learn((("new", "tls://someone:else@10.0.0.9:4222"), ("open", "nats://10.0.0.9:4222")))
    new = where("new")
    assert (new.user, new.password) == ("u", "p")
    assert new.tls is not None
    assert new.tls.ca_file == tmp_path / "ca.pem"
    assert where("open").tls is None
    secret = new_key()
    monkeypatch.setenv("NEARCAST_ADDED_PASSWORD", secret)
    where = directory(tmp_path, '[added]\nuser = "u"\n')
    where.learn((("new", "nats://10.0.0.9:4222"),))
    assert where("new").password == secret


def test_an_address_that_is_none_is_passed_over(tmp_path: Path) -> None:
    where = directory(tmp_path)
    where.learn((("new", "http://10.0.0.9"), ("other", "nats://10.0.0.9:4222")))
    with pytest.raises(ConfigError, match="no broker 'new'"):
        where("new")
    assert where("other").port == 4222
