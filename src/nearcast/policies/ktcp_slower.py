"""How much longer topics take than is said of them, by what their subscribers measure (Khare, section IV-E)."""

from __future__ import annotations

import numpy as np

from nearcast.domain.processing import Processing
from nearcast.domain.snapshot import Floats, Ints
from nearcast.policies.colocation import Predictor

_TRIED = np.geomspace(1.0, 8.0, 31)
_MUCH = 1.5
"""A topic that keeps its promise must be so much later than expected to be thought slower: models err by less. Without
it, one that was moved for its slowness would be thought quick again as soon as it is alone."""


def times_slower(  # noqa: PLR0917  # one call
    broker: Ints, topics: Ints, processing: Processing, predictor: Predictor, interval_ms: Floats, rate_hz: Floats
) -> Floats:
    """Of every topic, 1 for those that are as quick as expected. `topics` are at one broker each, `broker`.

    Where topics are later than expected, one of them takes longer: the one, and as many times, with which the model is
    nearest to what was measured of all at that broker (least squares of logarithms). If it was two, the second one is
    found once they are apart. Latency itself is no measure of it: near what a core can do, a message that takes twice
    as long is not twice as late but for ever.
    """
    found = np.ones(len(broker))
    seen = topics[processing.p90_ms[topics] > 0.0]  # NaN is not
    for each in np.unique(broker[seen]).tolist():
        here = topics[broker[topics] == each]
        if len(here) > predictor.most:
            continue
        p90_ms = processing.p90_ms[here]
        expected_ms = predictor.p90_ms(interval_ms[None, here], rate_hz[None, here])[0]
        late = (p90_ms > processing.bound_ms[here]) & (p90_ms > expected_ms)
        odd = np.flatnonzero(late | (p90_ms > _MUCH * expected_ms))
        if len(odd):
            each_alone = np.ones((len(odd), len(_TRIED), len(here)))
            each_alone[np.arange(len(odd)), :, odd] = _TRIED
            tried = each_alone.reshape(-1, len(here))
            foretold = predictor.p90_ms(interval_ms[here] * tried, np.broadcast_to(rate_hz[here], tried.shape))
            off = np.nansum(np.log(foretold / p90_ms) ** 2, axis=1)
            which, times = divmod(int(np.argmin(off)), len(_TRIED))
            found[here[odd[which]]] = _TRIED[times]
    return found
