"""A learned latency model: the 90th percentile of every topic of a set, before they are placed together.

One fit per number of topics. Inference is numpy alone; `nearcast.pipeline` trains. A model is a JSON document
(`nearcast.latency-model/1`), so that one can be read, compared and kept beside what it decided.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations_with_replacement
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from nearcast.domain.errors import ModelError
from nearcast.predict.features import INPUTS, LOG_WAIT
from nearcast.predict.queueing import Processors

Floats = NDArray[np.float64]

FORMAT = "nearcast.latency-model/1"

_MOST_LOG = np.log(1e9)  # what is beyond a fit's data may be anything; this many ms are surely too late


class Scale(msgspec.Struct, frozen=True):
    """Inputs as they were when the fit was made: less `mean`, in units of `unit`."""

    mean: tuple[float, ...]
    unit: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.unit) or 0.0 in self.unit:
            raise ValueError(f"{len(self.mean)} means and {len(self.unit)} units, of which none may be 0")

    def of(self, inputs: Floats) -> Floats:
        scaled: Floats = (inputs - np.array(self.mean)) / np.array(self.unit)
        return scaled


class Polynomial(msgspec.Struct, frozen=True, tag="polynomial", tag_field="kind"):
    """`weights`: of 1, then of every product of up to `degree` inputs, in the order of `itertools`."""

    degree: int
    weights: tuple[float, ...]

    def __call__(self, inputs: Floats) -> Floats:
        found: Floats = polynomial_terms(inputs, self.degree) @ np.array(self.weights)
        return found


class Network(msgspec.Struct, frozen=True, tag="network", tag_field="kind", dict=True):
    """Layers of `weights` (inputs x outputs) and `biases`; all but the last are rectified."""

    weights: tuple[tuple[tuple[float, ...], ...], ...]
    biases: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.weights or len(self.weights) != len(self.biases):
            raise ValueError(f"{len(self.weights)} layers of weights and {len(self.biases)} of biases")
        widths = [len(each) for each in self.biases]
        if any({len(row) for row in layer} != {wide} for layer, wide in zip(self.weights, widths, strict=True)):
            raise ValueError("a layer whose rows are not as wide as its biases")
        if widths[-1] != 1 or any(len(layer) != wide for wide, layer in zip(widths, self.weights[1:], strict=False)):
            raise ValueError("layers that do not fit each other, or do not end in one output")

    @cached_property
    def _layers(self) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        # float32: twice as fast, and far finer than any latency is known.
        pairs = zip(self.weights, self.biases, strict=True)
        return [(np.array(weights, np.float32), np.array(bias, np.float32)) for weights, bias in pairs]

    def __call__(self, inputs: Floats) -> Floats:
        layers = self._layers
        rows = inputs.astype(np.float32).reshape(-1, inputs.shape[-1])
        for weights, bias in layers[:-1]:
            rows = rows @ weights
            rows += bias
            np.maximum(rows, 0.0, out=rows)
        weights, bias = layers[-1]
        return (rows @ weights + bias).reshape(inputs.shape[:-1]).astype(np.float64)


class Fit(msgspec.Struct, frozen=True):
    """The fit for sets of `topics`. It gives the logarithm of the percentile in ms where `logarithm` says so, and
    where `over_queue` does, of how many times that is what a queue tells.
    """

    topics: int
    inputs: Literal["isolated", "colocated", "queueing"]
    scale: Scale
    regressor: Polynomial | Network
    logarithm: bool = True
    over_queue: bool = False

    def __post_init__(self) -> None:
        if self.over_queue and not (self.inputs == "queueing" and self.logarithm):
            raise ValueError("a fit over what a queue tells is of its inputs, and of the logarithm")

    def p90_ms(self, interval_ms: Floats, rate_hz: Floats, processors: Processors) -> Floats:
        """Of every topic of every set of so many."""
        inputs = INPUTS[self.inputs](interval_ms, rate_hz, processors)
        found = self.regressor(self.scale.of(inputs))
        if self.over_queue:
            found = found + inputs[..., LOG_WAIT]
        p90_ms: Floats = np.exp(np.minimum(found, _MOST_LOG)) if self.logarithm else np.maximum(found, 0.0)
        return p90_ms


class Accuracy(msgspec.Struct, frozen=True):
    """On measurements that the fit has not seen. Misses are shares of `rows` at the bound: `missed`, those that were
    late and were not expected to be, and `spurned`, the other way round.
    """

    topics: int
    rows: int
    r2: float
    median_error: float
    p90_error: float
    missed: float
    spurned: float


class Origin(msgspec.Struct, frozen=True):
    """What a model was learned from: `runs`, by where they are from, of which `validation` judged and none was learned
    from; `digest` is of their names. `discarded`: runs whose load generator was late.
    """

    runs: dict[str, int] = {}
    validation: int = 0
    digest: str = ""
    discarded: int = 0
    seed: int = 0


class LatencyModel(msgspec.Struct, frozen=True, dict=True):
    """Fits for sets of 1 to `most` topics, and for whose processors they are."""

    name: str
    processors: Processors
    fits: tuple[Fit, ...]
    accuracy: tuple[Accuracy, ...] = ()
    rows: int = 0
    format: str = FORMAT
    origin: Origin = Origin()

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format!r}; {FORMAT!r} is what this version reads")
        if [each.topics for each in self.fits] != list(range(1, len(self.fits) + 1)):
            raise ValueError(f"fits for {[each.topics for each in self.fits]} topics; one for each number from 1 on")

    @property
    def most(self) -> int:
        """As many topics can be foretold together."""
        return len(self.fits)

    def p90_ms(self, interval_ms: Floats, rate_hz: Floats) -> Floats:
        """Of every topic of every set; the sets have 1 to `most` topics, all of them as many."""
        fit: Fit = self.fits[interval_ms.shape[-1] - 1]
        return fit.p90_ms(interval_ms, rate_hz, self.processors)

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


def model_from_json(text: bytes, where: str) -> LatencyModel:
    """Raises ModelError, with `where` the text is from."""
    try:
        return msgspec.json.decode(text, type=LatencyModel)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelError(f"{where}: not a latency model that can be used: {error}") from error


def polynomial_terms(inputs: Floats, degree: int) -> Floats:
    """1, then every product of up to `degree` inputs."""
    count = inputs.shape[-1]
    products = [each for size in range(1, degree + 1) for each in combinations_with_replacement(range(count), size)]
    terms = [np.ones(inputs.shape[:-1])]
    terms += [np.prod(inputs[..., list(each)], axis=-1) for each in products]
    return np.stack(terms, axis=-1)
