"""What subscribers at one broker have told its agent that they suffered, since it started: for its metrics."""

from nearcast.domain.sketch import merged, unflat
from nearcast.wire.loads import Trouble


class Complaints:
    """`pauses` are buckets of `domain.sketch`."""

    def __init__(self) -> None:
        self.gaps = 0
        self.missed = 0
        self.discontinuities = 0
        self.pauses: dict[int, int] = {}

    def heard(self, trouble: Trouble) -> None:
        self.gaps += trouble.gaps
        self.missed += trouble.missed
        self.discontinuities += trouble.discontinuities
        self.pauses = merged((self.pauses, unflat(trouble.pauses)))
