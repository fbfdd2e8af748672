import pytest

from nearcast.domain.errors import NearcastError, TopicNameError
from nearcast.domain.topic import MAX_TOPIC_BYTES, validate_topic


@pytest.mark.parametrize(
    "name",
    ["a", "city/7/drone.42.position", "game:tile=3", "A_b-c@d+e", "über.straße", "温度", "a" * 200],
)
def test_an_ordinary_name_is_returned_unchanged(name: str) -> None:
    assert validate_topic(name) == name


@pytest.mark.parametrize("wildcard", ["drones.*", "drones.>", "drone?", "drone[12]", "*", ">"])
def test_a_wildcard_is_refused_as_such(wildcard: str) -> None:
    with pytest.raises(TopicNameError, match=r"wildcards .* are not supported"):
        validate_topic(wildcard)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("two words", "' ' at position 3"),
        ("tab\there", r"'\\t' at position 3"),
        ("line\n", r"'\\n' at position 4"),
        ("nul\0", r"'\\x00' at position 3"),
        ("non\u00a0breaking", r"'\\xa0'"),
        ("back\\slash", "at position 4"),
        ("tag{1}", "'{'"),
        ("price$", r"'\$'"),
        ("half\ud800", r"'\\ud800'"),
    ],
)
def test_a_refused_character_is_named_with_its_place(name: str, shown: str) -> None:
    with pytest.raises(TopicNameError, match=shown):
        validate_topic(name)


@pytest.mark.parametrize("name", [".a", "a.", "a..b", ".", ".."])
def test_an_empty_part_is_refused(name: str) -> None:
    with pytest.raises(TopicNameError, match="empty part"):
        validate_topic(name)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(TopicNameError, match="is empty"):
        validate_topic("")


@pytest.mark.parametrize("name", ["_nearcast", "_nearcast.hello", "_nearcast.a.b"])
def test_the_reserved_prefix_is_refused(name: str) -> None:
    with pytest.raises(TopicNameError, match="reserved for nearcast itself"):
        validate_topic(name)


@pytest.mark.parametrize("name", ["$SYS.REQ", "$", "_INBOX.x", "__keyspace@0__:a", "__sentinel__:hello"])
def test_names_that_belong_to_the_servers_are_refused(name: str) -> None:
    with pytest.raises(TopicNameError, match=r"belongs to (the )?(NATS|Redis)"):
        validate_topic(name)


@pytest.mark.parametrize("name", ["_nearcaster", "nearcast._nearcast.x", "_a", "_INBOXES", "a__b"])
def test_a_name_that_only_resembles_a_reserved_one_is_allowed(name: str) -> None:
    assert validate_topic(name) == name


def test_the_length_is_counted_in_bytes_not_characters() -> None:
    assert validate_topic("é" * (MAX_TOPIC_BYTES // 2))
    with pytest.raises(TopicNameError, match="is 202 bytes long as UTF-8; at most 200"):
        validate_topic("é" * (MAX_TOPIC_BYTES // 2 + 1))


def test_the_message_for_a_very_long_name_stays_short() -> None:
    with pytest.raises(TopicNameError) as refused:
        validate_topic("x" * 100_000)
    assert len(str(refused.value)) < 250


def test_a_second_spelling_of_a_visible_name_is_refused() -> None:
    angstrom_sign, letter_a_with_ring = "\u212b", "\u00c5"
    assert validate_topic(letter_a_with_ring)
    with pytest.raises(TopicNameError, match="NFC"):
        validate_topic(angstrom_sign)


def test_a_refused_name_is_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(TopicNameError):
            validate_topic("a b")


def test_the_error_is_a_value_error_and_ours() -> None:
    assert issubclass(TopicNameError, ValueError)
    assert issubclass(TopicNameError, NearcastError)
