"""How long a link waits: for an answer, and between two attempts."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a link waits: for an answer to a connection attempt, and between two attempts."""

    answer_s: float = 2.0
    first_s: float = 0.05
    factor: float = 2.0
    most_s: float = 2.0

    def before_attempt_s(self, attempt: int, rng: random.Random) -> float:
        """Spread over half the time, so that those who lost their broker together do not return together."""
        return min(self.most_s, self.first_s * self.factor ** min(attempt, 30)) * (0.5 + 0.5 * rng.random())
