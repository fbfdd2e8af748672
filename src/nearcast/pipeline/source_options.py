"""What can be asked of the Spark data source, checked before anything is connected to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nearcast.client.log_subscription import FIRST, NEW, Since, parse_since
from nearcast.domain.errors import ConfigError, TopicNameError
from nearcast.domain.topic import validate_topic
from nearcast.transport.config import Config, load_config

TIMEOUT_S = 60.0

_BOTH = ("config", "topic", "timeoutSeconds")
_READ = ("startingPosition", "maxMessagesPerBatch", "minPartitions", "failOnDataLoss")
_SPARKS = ("checkpointLocation",)  # comes along with a stream's own


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """`most` messages per batch of a stream; None: all that there are. `strict`: what is gone is an error."""

    config: Config
    topic: str
    since: Since = FIRST
    most: int | None = None
    parts: int = 1
    strict: bool = True
    timeout_s: float = TIMEOUT_S

    @classmethod
    def of(cls, given: Mapping[str, str], *, stream: bool) -> Self:
        """Raises ConfigError. A stream begins with what is new, and a batch reads all, as people know it of Kafka."""
        _must_be_known(given, (*_BOTH, *_READ), "read")
        topic = _topic(given)
        if topic is None:
            raise ConfigError('option topic is missing: .option("topic", "orders")')
        since = _since(given.get("startingPosition", NEW if stream else FIRST))
        if not stream and since == NEW:
            raise ConfigError(f"option startingPosition is {NEW!r}: spark.read reads what is there; use readStream")
        most = given.get("maxMessagesPerBatch")
        return cls(
            _config(given),
            topic,
            since,
            None if most is None else _whole("maxMessagesPerBatch", most),
            _whole("minPartitions", given.get("minPartitions", "1")),
            _yes("failOnDataLoss", given.get("failOnDataLoss", "true")),
            _seconds(given),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Without `topic`, each row names its own."""

    config: Config
    topic: str | None = None
    timeout_s: float = TIMEOUT_S

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Raises ConfigError."""
        _must_be_known(given, _BOTH, "write")
        return cls(_config(given), _topic(given), _seconds(given))


def _must_be_known(given: Mapping[str, str], known: tuple[str, ...], verb: str) -> None:
    if "path" in given:
        raise ConfigError(f'nearcast has topics, not paths: .option("topic", {given["path"]!r}) in place of a path')
    names = {name.lower() for name in (*known, *_SPARKS)}
    unknown = sorted(name for name in given if name.lower() not in names)
    if unknown:
        raise ConfigError(f"option {unknown[0]} is not known; to {verb} there are {', '.join(known)}")


def _config(given: Mapping[str, str]) -> Config:
    path = given.get("config")
    return load_config(None if path is None else Path(path))


def _topic(given: Mapping[str, str]) -> str | None:
    topic = given.get("topic")
    if topic is not None:
        try:
            validate_topic(topic)
        except TopicNameError as error:
            raise ConfigError(f"option topic: {error}") from None
    return topic


def _since(text: str) -> Since:
    try:
        return parse_since(text)
    except ConfigError:
        raise ConfigError(
            f"option startingPosition is {text!r}; expected {FIRST}, {NEW}, seconds since 1970, or a position"
        ) from None


def _whole(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigError(f"option {name} is {text!r}; expected a whole number from 1 on")
    return number


def _yes(name: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ConfigError(f"option {name} is {text!r}; expected true or false")
    return text.lower() == "true"


def _seconds(given: Mapping[str, str]) -> float:
    text = given.get("timeoutSeconds", str(TIMEOUT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise ConfigError(f"option timeoutSeconds is {text!r}; expected seconds, more than 0 and less than a day")
    return seconds
