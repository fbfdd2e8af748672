"""What a link of the WAN emulator does to bytes."""

from dataclasses import dataclass

from nearcast.domain.errors import ConfigError

_UNLIMITED_BYTES_PER_S = 100e6  # for the bound on what is on its way, where the link itself has no limit
_SLACK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """One link, each direction alike: bytes take `delay_s` one way, up to `jitter_s` longer by chance, and pass at most
    at `bytes_per_s`, which all connections of the link share."""

    delay_s: float
    jitter_s: float = 0.0
    bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.delay_s <= 60:
            raise ConfigError(f"delay_s is {self.delay_s}; expected seconds, 0 to 60")
        if not 0 <= self.jitter_s <= 60:
            raise ConfigError(f"jitter_s is {self.jitter_s}; expected seconds, 0 to 60")
        if self.bytes_per_s is not None and not self.bytes_per_s >= 1000:
            raise ConfigError(f"bytes_per_s is {self.bytes_per_s}; expected at least 1000, or none for no limit")

    @property
    def most_bytes(self) -> float:
        """How much of one connection may be on its way in one direction: what the delay needs, and a little."""
        rate = _UNLIMITED_BYTES_PER_S if self.bytes_per_s is None else self.bytes_per_s
        return (self.delay_s + self.jitter_s) * rate + _SLACK_BYTES
