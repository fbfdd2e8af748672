"""One TOML file: what it says, and what is refused with the key and what was expected."""

from pathlib import Path

import pytest

from nearcast.control.timing import Timing
from nearcast.domain.errors import ConfigError
from nearcast.domain.load import Resources
from nearcast.transport.config import BUS, find_config, load_config, new_key

GOOD = """
name = "drones"
key_file = "key"

[control]
url = "nats://127.0.0.1:4222"

[[broker]]
name = "edge1"
url = "nats://127.0.0.1:4223"
site = "berlin"

[[broker]]
name = "edge2"
url = "redis://127.0.0.1:6379"
site = "paris"

[[way]]
site = "paris"
broker = "edge1"
url = "nats://127.0.0.1:5001"

[timing]
lease_s = 5.0
"""


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEARCAST_CONFIG", "NEARCAST_KEY", "NEARCAST_CONTROL_URL"):
        monkeypatch.delenv(name, raising=False)


def written(folder: Path, text: str = GOOD) -> Path:
    (folder / "key").write_text(new_key())
    path = folder / "nearcast.toml"
    path.write_text(text)
    return path


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    config = load_config(written(tmp_path))
    assert (config.name, config.control.port, config.sites) == ("drones", 4222, ("berlin", "paris"))
    assert [(name, at.endpoint.kind) for name, at in config.brokers.items()] == [("edge1", "nats"), ("edge2", "redis")]
    assert config.timing == Timing(lease_s=5.0)
    assert config.ring.brokers == ("edge1", "edge2")
    assert len(config.dialect.key) == 32


def test_capacity_and_monitor_are_read_and_the_analyzer_can_be_switched_off(tmp_path: Path) -> None:
    known = 'out_bytes_per_s = 12.5e6\ncores = 0.5\nout_messages_per_s = 20e3\nmonitor = "http://127.0.0.1:8222"'
    text = GOOD.replace('site = "berlin"', known)
    config = load_config(written(tmp_path, text))
    edge1, edge2 = config.brokers["edge1"], config.brokers["edge2"]
    assert (edge1.out_bytes_per_s, edge1.monitor) == (12.5e6, "http://127.0.0.1:8222")
    assert (edge2.out_bytes_per_s, edge2.monitor) == (None, None)
    assert (edge1.most, edge2.most) == (Resources(cores=0.5, out_messages_per_s=20e3), Resources())
    assert config.counts
    assert not load_config(written(tmp_path, "analyzer = false\n" + GOOD)).counts
    assert not load_config(written(tmp_path, "protocol = 1\n" + GOOD)).counts, "others may not read it yet"


def test_nothing_is_served_over_http_unless_the_file_says_where(tmp_path: Path) -> None:
    assert (load_config(written(tmp_path)).web.address, load_config(written(tmp_path)).web.metrics) == (None, None)
    served = load_config(written(tmp_path, GOOD + '\n[web]\naddress = "127.0.0.1:8790"\nmetrics = "[::1]:0"\n')).web
    assert (served.address, served.metrics) == ("127.0.0.1:8790", "[::1]:0")
    with pytest.raises(ConfigError, match=r"web\.address: http: the address is '8790'; expected HOST:PORT"):
        load_config(written(tmp_path, GOOD + '\n[web]\naddress = "8790"\n'))


def test_what_is_served_over_https_is_shown_by_a_certificate(tmp_path: Path) -> None:
    tls = load_config(written(tmp_path, GOOD + '\n[web]\ncert_file = "web.pem"\n')).web.tls
    assert tls is not None
    assert (tls.cert_file, tls.key_file) == (tmp_path / "web.pem", None)
    with pytest.raises(ConfigError, match=r"web\.key_file has no web\.cert_file to go with it"):
        load_config(written(tmp_path, GOOD + '\n[web]\nkey_file = "web.key"\n'))


def test_a_site_reaches_a_broker_by_its_own_way_where_there_is_one(tmp_path: Path) -> None:
    config = load_config(written(tmp_path))
    assert config.endpoints("paris")("edge1").port == 5001
    assert config.endpoints("berlin")("edge1").port == 4223
    assert config.endpoints()("edge2").port == 6379
    assert config.endpoints("paris")(BUS).port == 4222
    far = GOOD.replace('broker = "edge1"', f'broker = "{BUS}"')
    assert load_config(written(tmp_path, far)).endpoints("paris")(BUS).port == 5001


def test_the_key_is_not_shown(tmp_path: Path) -> None:
    config = load_config(written(tmp_path))
    assert config.dialect.key.hex() not in repr(config)
    assert repr(config.dialect.key) not in repr(config)


def test_the_environment_goes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    monkeypatch.setenv("NEARCAST_KEY", "ab" * 16)
    monkeypatch.setenv("NEARCAST_CONTROL_URL", "nats://127.0.0.1:9999")
    monkeypatch.setenv("NEARCAST_CONFIG", str(path))
    config = load_config()
    assert (config.dialect.key, config.control.port) == (b"\xab" * 16, 9999)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('url = "nats://127.0.0.1:4223"', 'ulr = "x"', r"unknown field `ulr` - at `\$.broker\[0\]`"),
        ('url = "nats://127.0.0.1:4223"', "url = 7", r"Expected `str`, got `int` - at `\$.broker\[0\].url`"),
        ("nats://127.0.0.1:4223", "http://127.0.0.1:4223", r"broker\[0\].url.*expected nats://"),
        ('name = "edge2"', 'name = "edge1"', r"broker\[1\].name is 'edge1', as another broker's"),
        ('name = "edge2"', 'name = "edge.2"', r"broker\[1\].name is 'edge.2'; expected letters"),
        ('broker = "edge1"', 'broker = "edge9"', r"way\[0\].broker is 'edge9'; brokers are edge1, edge2"),
        ("lease_s = 5.0", "leese_s = 5.0", "timing.leese_s is not known; one of lease_s"),
        ("lease_s = 5.0", "lease_s = -5.0", "timing.lease_s is -5.0; expected seconds"),
        ("nats://127.0.0.1:4222", "redis://127.0.0.1:4222", "the control bus and the store need a NATS server"),
        ('key_file = "key"', 'key_file = "kex"', "kex' cannot be read: No such file"),
        ('key_file = "key"', "", "key_file is missing, and NEARCAST_KEY is not set"),
        ("[control]", "[control", "nearcast.toml: "),
        (
            "[timing]",
            '[rebalance]\npolicy = "magic"\n[timing]',
            "rebalance: .*'magic' is not known; there are all-pairs, bad-groups",
        ),
        (
            "[timing]",
            '[rebalance]\npolicy = "all-pairs"\n[timing]',
            "it is for the lab; 'epulsar' does with the middles",
        ),
        (
            "[timing]",
            "[rebalance]\nmoves_per_hour = 0\n[timing]",
            "rebalance.moves_per_hour is 0; it must be at least 1",
        ),
        (
            "[timing]",
            "[rebalance]\nhi_ratio = 1\n[timing]",
            "rebalance.hi_ratio is not known; one of allocation, at_once",
        ),
        (
            "[timing]",
            "[rebalance.balancing]\nalpha = -1.0\n[timing]",
            "rebalance: balancing.alpha is -1.0; it must be 0 or more",
        ),
        ("[timing]", "[rebalance]\nhigh_ratio = 0.1\n[timing]", "rebalance: .*each must be at most the next"),
        ('site = "paris"\n\n', "out_bytes_per_s = 0\n\n", r"broker\[1\].out_bytes_per_s is 0.0; expected a number"),
        ('site = "paris"\n\n', "out_bytes_per_s = nan\n\n", r"broker\[1\].out_bytes_per_s is nan; expected a number"),
        ('site = "paris"\n\n', "cores = -1\n\n", r"broker\[1\].cores is -1.0; expected a number, more than 0"),
        ('site = "paris"\n\n', 'monitor = "http://h:1"\n\n', r"broker\[1\].monitor is NATS's; a redis server is asked"),
        ('site = "berlin"', 'monitor = "nats://h:1"', r"broker\[0\].monitor is 'nats://h:1'; expected http://"),
        ('site = "berlin"', 'monitor = "http://h:x"', r"broker\[0\].monitor is 'http://h:x'; expected http://"),
        ("[timing]", '[tls]\nca_file = "ca.pem"\n[timing]', r"tls.ca_file is .*ca.pem', which is not a file"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ConfigError, match=said) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("key", "said"), [("xyz", "expected hexadecimal"), ("abcd", "holds 2 bytes; expected 16")])
def test_a_key_that_is_none_is_refused(tmp_path: Path, key: str, said: str) -> None:
    path = written(tmp_path)
    (tmp_path / "key").write_text(key)
    with pytest.raises(ConfigError, match=said):
        load_config(path)


def test_no_file_at_all_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="`nearcast up` writes one"):
        find_config()
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_config(Path("none.toml"))
    found = written(tmp_path)
    assert find_config() == Path(found.name)


def test_unknown_names_are_told_with_the_known_ones(tmp_path: Path) -> None:
    config = load_config(written(tmp_path))
    with pytest.raises(
        ConfigError, match="no broker is at site 'rome', and no way begins there; sites are berlin, paris"
    ):
        config.endpoints("rome")
    with pytest.raises(ConfigError, match="no broker 'edge9'; brokers are edge1, edge2"):
        config.endpoints()("edge9")


def test_a_place_without_a_broker_has_its_own_ways(tmp_path: Path) -> None:
    way = '[[way]]\nsite = "alps"\nbroker = "edge2"\nurl = "nats://127.0.0.1:5009"\n'
    config = load_config(written(tmp_path, GOOD + way))
    assert config.endpoints("alps")("edge2").port == 5009
    assert config.endpoints("alps")("edge1") == config.brokers["edge1"].endpoint


def test_the_loop_is_set_beside_its_policy(tmp_path: Path) -> None:
    table = "[rebalance]\nevery_s = 5\nhigh_ratio = 0.9\n[rebalance.replication]\nmost = 2\n"
    loop = load_config(written(tmp_path, GOOD + table)).loop
    assert (loop.policy, loop.every_s, loop.settings.high_ratio) == ("dynamoth", 5.0, 0.9)
    assert loop.settings.replication.most == 2
    assert load_config(written(tmp_path)).loop.every_s == 0.0


def test_homes_are_set_and_what_cannot_be_is_refused(tmp_path: Path) -> None:
    homes = load_config(written(tmp_path, GOOD + '[homes]\nplacement = "nearest"\nevery_s = 10\n')).homes
    assert (homes.placement, homes.policy, homes.every_s) == ("nearest", "bad-ldm", 10.0)
    assert load_config(written(tmp_path)).homes.placement == "", "who comes stays where it came"
    for table, message in (
        ('polizy = "bad-ldm"', "homes.polizy is not known; one of placement, policy"),
        ('policy = "hash"', "homes: homes.policy is 'hash'; one of bad-ldm"),
        ("every_s = true", "homes: Expected `float`"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config(written(tmp_path, f"{GOOD}[homes]\n{table}\n"))
