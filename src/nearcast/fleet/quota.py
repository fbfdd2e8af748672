"""What one server allows at most, so that no client takes it from the others."""

from dataclasses import dataclass

from nearcast.domain.errors import ConfigError

_LEAST_MESSAGE_BYTES = 1 << 20  # Redis takes no smaller limit, and clients of ours send almost as much


@dataclass(frozen=True, slots=True)
class Quota:
    """Who asks for more is refused, or cut off; others are not. `subscriptions` of one connection is NATS's: a Redis
    server counts none.
    """

    connections: int = 10_000
    subscriptions: int = 100_000
    message_bytes: int = _LEAST_MESSAGE_BYTES
    unread_bytes: int = 64 << 20  # that a subscriber has not taken yet

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ConfigError(f"quota: {name} is {getattr(self, name)}; expected at least 1")
        if self.message_bytes < _LEAST_MESSAGE_BYTES:
            raise ConfigError(f"quota: message_bytes is {self.message_bytes}; expected at least {_LEAST_MESSAGE_BYTES}")
