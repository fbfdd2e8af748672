"""Parameters, subscriptions and their keys."""

import pytest

from nearcast.domain.channel import ChannelSpec, Parameter, ParameterType, Subscription
from nearcast.domain.errors import ChannelError

NEAR = ChannelSpec(
    "emergencies",
    "SELECT 1",
    (Parameter("kind", ParameterType.STRING), Parameter("km", ParameterType.DOUBLE)),
    period_s=10.0,
)


def test_a_value_of_another_type_is_refused_by_channel_and_parameter() -> None:
    with pytest.raises(ChannelError, match=r"^channel emergencies: parameter 'kind' must be STRING, got 7$"):
        NEAR.bind({"kind": 7, "km": 1.0})
    with pytest.raises(ChannelError, match="parameter 'kind' must be STRING, got null"):
        NEAR.bind({"kind": None, "km": 1.0})
    with pytest.raises(ChannelError, match="channel emergencies: no value for parameter 'km' \\(DOUBLE\\)"):
        NEAR.bind({"kind": "fire"})
    with pytest.raises(ChannelError, match="channel emergencies: no parameter 'size'; it has kind, km"):
        NEAR.bind({"kind": "fire", "km": 1, "size": 2})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BOOLEAN", 1),
        ("INT", True),
        ("INT", 1 << 31),
        ("INT", 1.0),
        ("BIGINT", -(1 << 63) - 1),
        ("DOUBLE", float("nan")),
        ("DOUBLE", float("inf")),
        ("DOUBLE", 10**400),
        ("DOUBLE", "1"),
        ("DATE", "2025-02-29"),
        ("DATE", "2025-13-01"),
        ("DATE", "1900-02-29"),
        ("DATE", "0000-01-01"),
        ("TIMESTAMP", "2026-11-16T13:00:00"),
        ("TIMESTAMP", "2026-11-16T24:00:00Z"),
        ("TIMESTAMP", 1.0),
    ],
)
def test_what_a_type_cannot_hold_is_refused(kind: str, value: object) -> None:
    with pytest.raises(ChannelError, match="parameter 'x' must be "):
        Parameter("x", ParameterType(kind)).must_take(value)


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        ("BIGINT", (1 << 63) - 1, (1 << 63) - 1),
        ("DOUBLE", 3, 3.0),
        ("DATE", "2024-02-29", "2024-02-29"),
        ("DATE", "2000-02-29", "2000-02-29"),
        ("TIMESTAMP", "2026-11-16T13:00:00.250000Z", "2026-11-16T13:00:00.25Z"),
        ("TIMESTAMP", "2026-11-16T13:00:00.000Z", "2026-11-16T13:00:00Z"),
    ],
)
def test_one_value_is_kept_in_one_way(kind: str, value: object, kept: object) -> None:
    found = Parameter("x", ParameterType(kind)).must_take(value)
    assert (found, type(found)) == (kept, type(kept))


def test_the_same_question_has_the_same_key_in_every_process_and_another_has_another() -> None:
    one = NEAR.bind({"kind": "fire", "km": 5})
    assert len(one.key) == 32
    assert NEAR.bind({"km": 5.0, "kind": "fire"}).key == one.key
    swapped = ChannelSpec(NEAR.name, NEAR.query, NEAR.parameters[::-1])
    assert swapped.bind({"kind": "fire", "km": 5.0}).key == one.key
    assert NEAR.bind({"kind": "fire", "km": -0.0}).key == NEAR.bind({"kind": "fire", "km": 0}).key
    others = {
        NEAR.bind({"kind": "flood", "km": 5}).key,
        NEAR.bind({"kind": "fire", "km": 5.5}).key,
        Subscription("others", one.values).key,
        Subscription("emergencies", (("kind", "fire"),)).key,
    }
    assert one.key not in others
    assert len(others) == 4


def test_a_key_does_not_change_with_the_version_of_the_program() -> None:
    assert NEAR.bind({"kind": "fire", "km": 5}).key == "5e5cf08ebd5ce5096909239d9438a622"


def test_a_channel_that_cannot_be_is_refused() -> None:
    with pytest.raises(ChannelError, match="channel 'no such': expected a letter"):
        ChannelSpec("no such", "SELECT 1")
    with pytest.raises(ChannelError, match="parameter 'kind' is declared twice"):
        ChannelSpec("c", "SELECT 1", (Parameter.parse("kind STRING"), Parameter.parse("Kind INT")))
    with pytest.raises(ChannelError, match="a period of 0 s"):
        ChannelSpec("c", "SELECT 1", period_s=0)
    with pytest.raises(ChannelError, match="expected a name and a type, like 'kind STRING'"):
        Parameter.parse("kind")
    with pytest.raises(ChannelError, match=r"'KIND TEXT'.*types: STRING, BOOLEAN"):
        Parameter.parse("KIND TEXT")
