"""What an operator may set about rebalancing. One value for every policy: each reads what concerns it."""

from dataclasses import dataclass, field
from typing import Literal

from nearcast.domain.errors import ConfigError
from nearcast.predict.latency_model import LatencyModel
from nearcast.predict.queueing import Processors


@dataclass(frozen=True, slots=True)
class Replication:
    """Dynamoth's Algorithm 1. The two ratios are those of the authors' code, the rest is ours (ADR 8).

    Rates are per second. `keep_ratio`: a topic loses replicas only when it would also with thresholds this much lower,
    so that one that hovers at a threshold is not changed back and forth.
    """

    all_subscribers_ratio: float = 1500.0  # publications per subscriber
    publications: float = 1000.0
    all_publishers_ratio: float = 30.0  # subscribers per publication
    subscribers: int = 100
    most: int = 8
    keep_ratio: float = 0.8

    def __post_init__(self) -> None:
        for name in ("all_subscribers_ratio", "publications", "all_publishers_ratio", "subscribers"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"replication.{name} is {getattr(self, name)}; it must be more than 0")
        if self.most < 1:
            raise ConfigError(f"replication.most is {self.most}; a topic is on at least one broker (1: no replication)")
        if not 0 < self.keep_ratio <= 1:
            raise ConfigError(f"replication.keep_ratio is {self.keep_ratio}; it must be more than 0 and at most 1")


@dataclass(frozen=True, slots=True)
class Balancing:
    """Algorithm 1 of BAD: when subscribers go to another home. Loads are those of equation 5, in bytes a second.

    Subscribers migrate while the coefficient of variation of brokers' loads is above `alpha` and their mean above
    `beta_bytes_per_s`; policy `bad-shuffle` gives all of them new homes first when these are above `gamma` and
    `theta_bytes_per_s`, and then migrates by `scheme`. `alpha` is the paper's; the others it does not say, or says for
    its own load only: ours are for any fleet that does anything at all.
    """

    alpha: float = 0.15
    beta_bytes_per_s: float = 1000.0
    gamma: float = 0.3
    theta_bytes_per_s: float = 1000.0
    scheme: Literal["ldm", "sdm"] = "ldm"

    def __post_init__(self) -> None:
        for name in ("alpha", "beta_bytes_per_s", "gamma", "theta_bytes_per_s"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"balancing.{name} is {getattr(self, name)}; it must be 0 or more")
        if self.scheme not in ("ldm", "sdm"):
            raise ConfigError(f"balancing.scheme is {self.scheme!r}; one of 'ldm', 'sdm'")


@dataclass(frozen=True, slots=True)
class Colocation:
    """Khare's k-topic co-location. At most `most` (k) processed topics share a broker; the hybrid searches sets of
    `searched` (k'). `margin_ms` is kept off every bound, as in the authors' code. Without a `model`, what a queue with
    these `processors` tells decides.
    """

    most: int = 6
    searched: int = 3
    margin_ms: float = 100.0
    processors: Processors = field(default_factory=Processors)
    model: LatencyModel | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.searched <= self.most:
            raise ConfigError(f"colocation.searched is {self.searched}; it must be from 1 to `most` ({self.most})")
        if not self.margin_ms >= 0:
            raise ConfigError(f"colocation.margin_ms is {self.margin_ms}; it must be 0 or more")


@dataclass(frozen=True, slots=True)
class Allocation:
    """RELOC: which home each client of a topic gets that is processed at homes.

    `clusters` (K) None: as many as give the least delay. `relations` (M') is how many of those that have most in common
    with a client are asked where they are, and `factors` the rank that relations are told apart by. `locality`,
    `relation` and `cooperation` are the three steps of Algorithm 1, each of which can be left out. `moves`: whom a full
    server loses, the one client that came last, as the pseudocode has it, or with it all who publish the same topic, as
    the text says. `sweeps`: how often the search looks at every client. `seed` is of policy `random`.

    A plan changes at most `most_changes` homes, those first by which most is won; None: all. Who has no home yet gets
    one in any case.
    """

    clusters: int | None = None
    relations: int = 100
    factors: int = 16
    locality: bool = True
    relation: bool = True
    cooperation: bool = True
    moves: Literal["client", "publishers"] = "publishers"
    sweeps: int = 20
    seed: int = 0
    most_changes: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("relations", 0), ("factors", 1), ("sweeps", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"allocation.{name} is {getattr(self, name)}; it must be {least} or more")
        if self.clusters is not None and self.clusters < 1:
            raise ConfigError(f"allocation.clusters is {self.clusters}; there is at least one (or leave it out)")
        if self.most_changes is not None and self.most_changes < 0:
            raise ConfigError(f"allocation.most_changes is {self.most_changes}; it must be 0 or more (or leave it out)")
        if self.moves not in ("client", "publishers"):
            raise ConfigError(f"allocation.moves is {self.moves!r}; one of 'client', 'publishers'")


@dataclass(frozen=True, slots=True)
class Settings:
    """Load ratios are outgoing bandwidth over capacity.

    A broker above `high_ratio` is overloaded, and is brought down to `safe_ratio`. `low_ratio`: what the others may
    reach when one is emptied to be released. `full_ratio`: as far as a broker is filled when all are overloaded and no
    more can be rented.

    While a topic moves, agents forward what is published on it. `forward_messages_per_s` and `forward_bytes_per_s`: as
    much as the moves of one plan may make one agent forward; a topic that is more by itself moves alone. `nearcast
    bench forward` measures what one can: the defaults are a third of that, for it is not all that an agent does.

    When all brokers together are above half the safe ratio and none can be rented, topics are cut into parts of
    `part_ratio` of a broker's capacity.

    At most `max_release` brokers are released by one plan. `max_brokers` None: as many as are needed. `watermark`: the
    load ratio above which `epulsar` takes a broker for overloaded.
    """

    high_ratio: float = 0.80
    safe_ratio: float = 0.60
    low_ratio: float = 0.60
    full_ratio: float = 1.0
    wait_s: float = 20.0
    min_brokers: int = 1
    max_brokers: int | None = None
    part_ratio: float = 0.02
    forward_messages_per_s: float = 10_000.0
    forward_bytes_per_s: float = 50e6
    max_release: int = 1
    watermark: float = 0.85
    replication: Replication = field(default_factory=Replication)
    balancing: Balancing = field(default_factory=Balancing)
    colocation: Colocation = field(default_factory=Colocation)
    allocation: Allocation = field(default_factory=Allocation)

    def __post_init__(self) -> None:
        if not 0 < self.safe_ratio <= self.high_ratio <= self.full_ratio:
            raise ConfigError(
                f"safe_ratio {self.safe_ratio}, high_ratio {self.high_ratio}, full_ratio {self.full_ratio}: "
                "each must be at most the next, and the first more than 0"
            )
        if not 0 < self.low_ratio <= self.high_ratio:
            raise ConfigError(f"low_ratio is {self.low_ratio}; it must be more than 0 and at most {self.high_ratio}")
        if not 0 < self.watermark <= 1:
            raise ConfigError(f"watermark is {self.watermark}; it must be more than 0 and at most 1")
        if self.min_brokers < 1:
            raise ConfigError(f"min_brokers is {self.min_brokers}; topics need at least one broker")
        if self.max_brokers is not None and self.max_brokers < self.min_brokers:
            raise ConfigError(f"max_brokers is {self.max_brokers}, less than min_brokers ({self.min_brokers})")
        if not self.wait_s >= 0 or not self.part_ratio >= 0 or self.max_release < 0:
            raise ConfigError(
                f"wait_s is {self.wait_s}, part_ratio is {self.part_ratio}, max_release is {self.max_release}; "
                "none of them may be negative"
            )
        for name in ("forward_messages_per_s", "forward_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be more than 0, or nothing ever moves")
