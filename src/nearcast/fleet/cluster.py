"""Several NATS servers of one site that keep persistent topics together."""

from dataclasses import dataclass, field

from nearcast.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Cluster:
    """One server's place in it: `port` is where its peers reach it, `ports` where all of them are.

    With a `rack`, no two replicas of a segment are on servers of the same one; then every server must have one. With a
    `password`, only who knows it may join: a member sees and sends everything, whatever users may.
    """

    name: str
    port: int
    ports: tuple[int, ...]
    rack: str = ""
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.port not in self.ports:
            raise ConfigError(f"cluster {self.name!r}: port {self.port} is not one of its ports {self.ports}")
