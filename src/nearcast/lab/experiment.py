"""What an experiment is: a name, what it undertakes to measure, and a function from settings to an outcome."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from nearcast.domain.errors import ConfigError
from nearcast.lab.claim import Claim, Expectation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Mode = Literal["live", "virtual", "flow"]
Option = Literal[
    "seeds",
    "faults",
    "elastic",
    "brokers",
    "latency_matrix",
    "popularity",
    "data",
    "spark",
    "duration",
    "rate",
    "scale",
    "recorded",
    "rows",
    "trips",
    "followers",
]
Kind = Literal["nats", "redis"]

Cell = str | int | float | bool | None
Metric = Cell | Sequence["Metric"] | Mapping[str, "Metric"]

# Draws onto an empty figure. The figure is an argument so that an experiment imports no drawing library.
Draw = Callable[["Figure"], None]


class Progress(Protocol):
    """Told how far a run has come; must return at once."""

    def __call__(self, done: int, total: int, doing: str) -> None: ...


def silent(done: int, total: int, doing: str) -> None:
    """The progress of a run that nobody watches."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How an experiment is to be run.

    `seed` is the first seed; `seeds` how many from there on, or None for as many as the experiment takes by itself.
    `quick` may shrink sizes, never change a rule. `jobs` is the number of processes; it must not change the outcome.
    `brokers` is the kind of servers of a live run; None for NATS. `latency_matrix` and `popularity` are files of real
    round-trip times and of real topics' sizes, in place of what the experiment has by itself. `elastic`: servers
    come and go meanwhile. `data` is a folder of real data, for experiments that know what is in it. `spark` is the
    master of a Spark cluster that does the work in the place of `jobs`; it must not change the outcome either.
    `duration_s` and `rate_hz` (of each publisher) are in place of the experiment's own; with `scale` everything is so
    many times as far, and promises are as many times as long, for machines that are late themselves; `recorded`:
    clients go as real ones went. `rows` is a folder of what `nearcast model collect` has measured; `trips` a file of
    taxi trips; `followers` one of who follows whom, in place of a graph that is drawn.
    """

    mode: Mode
    seed: int = 0
    seeds: int | None = None
    quick: bool = False
    faults: bool = False
    jobs: int = 1
    brokers: Kind | None = None
    latency_matrix: Path | None = None
    popularity: Path | None = None
    elastic: bool = False
    data: Path | None = None
    spark: str | None = None
    duration_s: float | None = None
    rate_hz: float | None = None
    scale: float | None = None
    recorded: bool = False
    rows: Path | None = None
    trips: Path | None = None
    followers: Path | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One CSV file: `rows` have as many cells as `columns`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {number} has {len(row)} cells for {len(self.columns)} columns: {row!r}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run found. Tables and figures are named without a suffix, and are written as NAME.csv and NAME.png."""

    claims: tuple[Claim, ...]
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Draw] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of one paper.

    `measure` does the work; it is called through `run` only. The first of `modes` is the default. `options` are the
    settings beyond mode, seed, quick and jobs that it takes; another one given is refused, not ignored.
    """

    name: str
    paper: str
    summary: str
    expectations: tuple[Expectation, ...]
    modes: tuple[Mode, ...]
    measure: Callable[[RunSettings, Progress], Outcome]
    options: tuple[Option, ...] = ()

    def refusal(self, settings: RunSettings) -> str | None:
        """Why it cannot be run with these settings, or None."""
        if settings.mode not in self.modes:
            return f"{self.name} has no mode {settings.mode!r}; it has {', '.join(self.modes)}"
        if settings.seeds is not None and "seeds" not in self.options:
            return f"{self.name} takes one seed, not a number of them: leave out --seeds"
        if settings.faults and "faults" not in self.options:
            return f"{self.name} has no faults to switch on: leave out --faults"
        if settings.elastic and "elastic" not in self.options:
            return f"{self.name} has the servers that it has: leave out --elastic"
        if settings.brokers is not None and ("brokers" not in self.options or settings.mode != "live"):
            return "--brokers is for experiments on real servers: add --mode live, or leave it out"
        if settings.latency_matrix is not None and "latency_matrix" not in self.options:
            return f"{self.name} samples no WAN latencies: leave out --latency-matrix"
        if settings.popularity is not None and "popularity" not in self.options:
            return f"{self.name} has no topics whose popularity could be given: leave out --popularity"
        if settings.spark is not None and "spark" not in self.options:
            return f"{self.name} does not run on Spark: leave out --spark and --master"
        if settings.rows is not None and "rows" not in self.options:
            return f"{self.name} learns nothing from measurements: leave out --rows"
        if settings.trips is not None and "trips" not in self.options:
            return f"{self.name} has no taxis: leave out --trips"
        if settings.duration_s is not None and "duration" not in self.options:
            return f"{self.name} takes as long as it takes: leave out --duration"
        if settings.rate_hz is not None and "rate" not in self.options:
            return f"{self.name} has its own rates: leave out --rate"
        if settings.scale is not None and "scale" not in self.options:
            return f"{self.name} has no distances that could be scaled: leave out --scale"
        if settings.followers is not None and "followers" not in self.options:
            return f"{self.name} has nobody who follows anybody: leave out --followers"
        if settings.recorded and ("recorded" not in self.options or settings.data is None):
            return f"{self.name} has no recorded paths here: leave out --recorded, or say where they are with --data"
        return None

    def run(self, settings: RunSettings, progress: Progress = silent) -> Outcome:
        """Measure. ConfigError for settings that `refusal` objects to.

        A run need not measure every expectation (some need faults), but it may claim nothing that was not undertaken,
        and no claim may hold otherwise than by its rule: ValueError, because then the experiment itself is wrong.
        """
        if reason := self.refusal(settings):
            raise ConfigError(reason)
        outcome = self.measure(settings, progress)
        undertaken = {(one.id, one.statement): one for one in self.expectations}
        for claim in outcome.claims:
            expectation = undertaken.get((claim.id, claim.statement))
            if expectation is None:
                raise ValueError(f"{self.name} claims {claim.id} {claim.statement!r}, which it does not undertake")
            if claim != expectation.judge(claim.measured):
                raise ValueError(f"{self.name} does not judge {claim.id} {claim.statement!r} by its own rule: {claim}")
        return outcome
