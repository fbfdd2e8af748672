"""What the processing of each topic takes at a broker, and what was promised of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Processing:
    """In the order of a snapshot's topics. `interval_ms`: what one message takes, NaN for a topic without a processor.

    `bound_ms` is what 90 of 100 messages must be received within, infinite where nothing is promised; `p90_ms` what was
    measured, NaN where nobody did.
    """

    interval_ms: Floats
    bound_ms: Floats
    p90_ms: Floats
