"""The log of a persistent topic: a list of segments, one per epoch, each kept at the site of the broker it was on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nearcast.domain.errors import ConfigError

REPLICAS = (1, 3, 5)


@dataclass(frozen=True, slots=True)
class LogSpec:
    """What a topic asks of its log. `None` for a limit: nothing is removed because of it."""

    replicas: int = 3
    retain_s: float | None = None
    retain_bytes: int | None = None
    retain_messages: int | None = None

    def __post_init__(self) -> None:
        if self.replicas not in REPLICAS:
            numbers = ", ".join(map(str, REPLICAS))
            raise ConfigError(
                f"replicas is {self.replicas}; expected {numbers}: a majority must write, and an even number outlives"
                " no more losses than the odd one below it"
            )
        for name in ("retain_s", "retain_bytes", "retain_messages"):
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise ConfigError(f"{name} is {value}; expected at least 1, or none for no limit")

    @property
    def quorum(self) -> int:
        """How many replicas have a message on their disks when its publisher is told."""
        return self.replicas // 2 + 1

    def must_be_quorum(self, quorum: int) -> None:
        """Raises ConfigError for another write quorum than the one there is."""
        if quorum != self.quorum:
            raise ConfigError(
                f"quorum is {quorum}; with {self.replicas} replicas it is {self.quorum}: JetStream acknowledges when a"
                " majority has written, neither before nor later"
            )


@dataclass(frozen=True, slots=True)
class Segment:
    """`end`: the last record that counts, once nobody writes to it any more; 0 when there is none; None while open."""

    epoch: int
    broker: str
    end: int | None = None

    @property
    def empty(self) -> bool:
        return self.end == 0


@dataclass(frozen=True, slots=True)
class TopicLog:
    """`id` tells it from an earlier log of the same topic. What was written before epoch `floor` has been removed."""

    id: str
    spec: LogSpec
    segments: tuple[Segment, ...] = ()
    floor: int = 0

    def segment(self, epoch: int) -> Segment | None:
        return next((each for each in self.segments if each.epoch == epoch), None)

    def name(self, epoch: int) -> str:
        """By which a segment is known where it is kept."""
        return f"NEARCAST_{self.id}_{epoch}"

    def opened(self, epoch: int, broker: str) -> TopicLog:
        return replace(self, segments=(*self.segments, Segment(epoch, broker)))

    def ended(self, epoch: int, end: int) -> TopicLog:
        segments = tuple(replace(each, end=end) if each.epoch == epoch else each for each in self.segments)
        return replace(self, segments=segments)

    def after(self, earlier: TopicLog) -> TopicLog:
        """The same as an agent says it that may be behind: what was known of an end, or of a removal, stays known."""
        if earlier.id != self.id:
            return self
        floor, ends = max(self.floor, earlier.floor), {each.epoch: each.end for each in earlier.segments}
        segments = tuple(
            each if each.end is not None else replace(each, end=ends.get(each.epoch))
            for each in self.segments
            if each.epoch >= floor
        )
        return replace(self, segments=segments, floor=floor)

    def until(self, epoch: int) -> TopicLog:
        """Without the segments of later epochs."""
        return replace(self, segments=tuple(each for each in self.segments if each.epoch <= epoch))

    def without(self, epochs: tuple[int, ...]) -> TopicLog:
        """Of the oldest; what was in them is gone."""
        gone = [each.epoch for each in self.segments if each.epoch in epochs and not each.empty]
        left = tuple(each for each in self.segments if each.epoch not in epochs)
        return replace(self, segments=left, floor=max([self.floor, *(epoch + 1 for epoch in gone)]))


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader is: give it back to read on from there.

    Everything before epoch `floor` has been read; of the segments in `read`, (epoch, seq, taken) says that record `seq`
    is next, and that so many messages of it have been taken. `ahead`: (epoch, publisher, number) of publishers whose
    messages up to that one were taken from this epoch's segment, while copies of them may be met elsewhere.
    """

    floor: int
    read: tuple[tuple[int, int, int], ...] = ()
    ahead: tuple[tuple[int, int, int], ...] = ()

    def __str__(self) -> str:
        read, ahead = (".".join("-".join(map(str, each)) for each in part) for part in (self.read, self.ahead))
        return f"{self.floor}~{read}~{ahead}".rstrip("~")

    @classmethod
    def parse(cls, text: str) -> Position:
        """What `str` gave. Raises ConfigError."""
        try:
            floor, read, ahead = f"{text}~~".split("~")[:3]
            return cls(int(floor), _triples(read), _triples(ahead))
        except ValueError:
            raise ConfigError(f"{text!r} is not the position of a message") from None


def _triples(text: str) -> tuple[tuple[int, int, int], ...]:
    """Raises ValueError."""
    parts = [tuple(map(int, each.split("-"))) for each in text.split(".")] if text else []
    return tuple((epoch, number, count) for epoch, number, count in parts)
