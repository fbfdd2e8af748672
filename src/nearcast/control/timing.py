"""Every time constant of the protocol, in one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """`lease_s` is the L of the rules; everything that forgets does so after a multiple of it."""

    lease_s: float = 10.0
    linger_s: float = 1.0  # rule 3: how long a subscriber stays after the last marker
    patience_s: float = 3.0  # rule 6: how long a hole waits for other paths once there is evidence of it
    merge_s: float = 0.02  # rule 3: markers asked for within this time share a generation,
    merge_client_s: float = 0.001  # and within so much more per client and source: each hears a marker of each
    retry_s: float = 1.0  # an unanswered question is asked again, elsewhere; markers are merged for no longer
    beat_s: float = 1.0  # rule 4: an idle forwarding path shows its counter this often
    idle_s: float = 0.5  # rule 6: an idle publisher announces its high-water mark, then ever more seldom
    copy_s: float = 0.02  # how long what homes spool is put together before it is copied to the others
    transit_s: float = 2.0  # how long a message may be under way; widens a reported discontinuity

    @property
    def renew_s(self) -> float:
        return self.lease_s / 3

    @property
    def wait_s(self) -> float:
        """How long a message may wait to be processed: less than after which its publisher is missed."""
        return self.lease_s / 2

    @property
    def quiet_s(self) -> float:
        return 2 * self.lease_s

    @property
    def forget_s(self) -> float:
        return 4 * self.lease_s

    @property
    def follow_s(self) -> float:
        """How often a client says how far its subscriptions to channels are, and an agent that it is there."""
        return self.lease_s / 2

    @property
    def absent_s(self) -> float:
        """Whoever has not been heard for so long has no followers, or is none."""
        return 2 * self.lease_s
