"""Where operators' commands find a coordinator, and with what they are let in."""

from pathlib import Path

import pytest

from nearcast.cli.api import api_of, because, pages_of, token_of, topic_path
from nearcast.domain.errors import ConfigError
from nearcast.transport.config import load_config

FILE = '[control]\nurl = "nats://bus:1"\n[[broker]]\nname = "b1"\nurl = "nats://b1:1"\n[web]\n'


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARCAST_KEY", "ab" * 32)
    monkeypatch.delenv("NEARCAST_API", raising=False)
    monkeypatch.delenv("NEARCAST_TOKEN", raising=False)


def written(folder: Path, web: str) -> Path:
    file = folder / "nearcast.toml"
    file.write_text(FILE + web)
    return file


def test_the_file_says_where_and_with_which_token_and_the_environment_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("nct_mine\n")
    config = load_config(written(tmp_path, 'api = ["http://c1:8790/", "https://c2"]\ntoken_file = "mine"\n'))
    assert pages_of(config) == ("http://c1:8790", "https://c2")
    assert token_of(config) == "nct_mine"
    assert pages_of(load_config(written(tmp_path, 'address = "127.0.0.1:8790"\n'))) == ("http://127.0.0.1:8790",)
    monkeypatch.setenv("NEARCAST_TOKEN", "nct_other")
    assert token_of(config) == "nct_other"
    monkeypatch.setenv("NEARCAST_API", "http://c3:1")
    api_of(tmp_path / "no such file")  # both are enough


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"no coordinator serves an API: set web.address.*NEARCAST_API"):
        pages_of(load_config(written(tmp_path, "")))
    with pytest.raises(
        ConfigError, match=r"web.token_file .*mine' cannot be read: No such file.*nearcast token create"
    ):
        token_of(load_config(written(tmp_path, 'token_file = "mine"\n')))
    with pytest.raises(ConfigError, match=r"web.api is 'c1:8790'; expected addresses like http://"):
        pages_of(load_config(written(tmp_path, 'api = ["c1:8790"]\n')))
    monkeypatch.setenv("NEARCAST_API", "c1")
    with pytest.raises(ConfigError, match=r"NEARCAST_API is 'c1'"):
        api_of(written(tmp_path, ""))


def test_a_topic_with_slashes_is_one_name_and_an_order_has_a_reason() -> None:
    assert topic_path("game/arena ü", "move") == "topics/game%2Farena%20%C3%BC/move"
    assert because("the disk fails") == "the disk fails"
    assert because(" ").endswith("on the command line")
