from pathlib import Path

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.transport.endpoint import Endpoint, Tls


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("nats://one.example", Endpoint("nats", "one.example", 4222)),
        ("redis://one.example/", Endpoint("redis", "one.example", 6379)),
        ("nats://127.0.0.1:14222", Endpoint("nats", "127.0.0.1", 14222)),
        ("nats://[::1]:14222", Endpoint("nats", "::1", 14222)),
        ("tls://one.example", Endpoint("nats", "one.example", 4222, tls=Tls())),
        ("rediss://one.example", Endpoint("redis", "one.example", 6379, tls=Tls())),
        ("nats://ann:p%40ss@one.example", Endpoint("nats", "one.example", 4222, "ann", "p@ss")),
        ("redis://:pass@one.example", Endpoint("redis", "one.example", 6379, None, "pass")),
    ],
)
def test_an_address_is_read(url: str, endpoint: Endpoint) -> None:
    assert Endpoint.parse(url) == endpoint
    assert Endpoint.parse(endpoint.url) == Endpoint(endpoint.kind, endpoint.host, endpoint.port, tls=endpoint.tls)


def test_tls_is_used_when_it_is_given() -> None:
    tls = Tls(ca_file=Path("ca.pem"))
    assert Endpoint.parse("nats://one.example", tls=tls).tls == tls
    assert Endpoint.parse("tls://one.example", tls=tls).tls == tls
    assert Endpoint.parse("redis://one.example", tls=tls).url == "rediss://one.example:6379"


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("one.example:4222", "scheme 'one.example'"),
        ("http://one.example", "scheme 'http'"),
        ("nats://", "names no host"),
        ("nats://:4222", "names no host"),
        ("nats://one.example:port", "is not an address"),
        ("nats://one.example:0", "port 0 is not between"),
        ("nats://one.example:70000", "is not an address"),
        ("redis://one.example/3", "more than an address"),
        ("nats://one.example?x=1", "more than an address"),
        ("nats://one.example,two.example", "is not a host name"),
        ("nats://ann@one.example", "user 'ann' has no password"),
        ("nats://:pass@one.example", "NATS asks for both"),
    ],
)
def test_what_cannot_be_an_address_is_refused_with_the_reason(url: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Endpoint.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "nats://ann:secret@",
        "nats://ann:sec/ret@one.example",
        "nats://ann:secret#@one.example:port",
        "smtp://ann:secret@one.example",
        "nats://ann:secret@one.example/3",
        "nats://ann:secret@one.example:0",
    ],
)
def test_no_complaint_shows_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Endpoint.parse(url)
    assert "sec" not in str(refused.value)


def test_an_endpoint_does_not_show_its_password() -> None:
    endpoint = Endpoint.parse("nats://ann:secret@one.example")
    assert "secret" not in f"{endpoint} {endpoint!r} {endpoint.url}"


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kind 'kafka' is not a kind of server \(nats, redis\)"):
        Endpoint("kafka", "one.example", 9092)


def test_a_file_for_tls_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(ConfigError, match=r"ca_file '.*absent.pem' cannot be used: .*No such file"):
        Tls(ca_file=tmp_path / "absent.pem").client_context()
    with pytest.raises(ConfigError, match=r"ca_file '.*empty.pem' cannot be used"):
        Tls(ca_file=empty).client_context()
    with pytest.raises(ConfigError, match=r"cert_file '.*empty.pem' with key_file '.*key.pem' cannot be used"):
        Tls(cert_file=empty, key_file=tmp_path / "key.pem").client_context()
    with pytest.raises(ConfigError, match="has no cert_file"):
        Tls(key_file=empty).client_context()
