"""What one broker carried in one interval, per topic: what agents report and policies plan by.

Rates are averages over the interval, per second. What is counted is what passed this broker: a topic on several brokers
is in the report of each.
"""

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """One topic at one broker.

    `publications` and `bytes_in` are what publishers sent here, `deliveries` and `bytes_out` what subscribers got from
    here. What agents forward to each other is in neither.
    """

    topic: str
    publications: float
    deliveries: float
    bytes_in: float
    bytes_out: float
    publishers: int
    subscribers: int


@dataclass(frozen=True, slots=True)
class Resources:
    """What a server uses, or may use, beside bandwidth; None where that is not known, or nobody said.

    `cores` are processors: 0.5 is half of one.
    """

    cores: float | None = None
    memory_bytes: float | None = None
    out_messages_per_s: float | None = None


UNKNOWN = Resources()


@dataclass(frozen=True, slots=True)
class Handover:
    """What the moves of one topic cost the agent of one broker, since the agent started.

    `forwarded`: messages that it carried to other brokers, with their `forwarded_bytes`. `notices`: how often it said
    where the topic is now, on the topic or to one publisher. `emptied_s`: from when clients were told of the last move
    away from this broker until its agent was sure that none uses it for the topic any more; None where that has not
    been.
    """

    topic: str
    forwarded: int = 0
    forwarded_bytes: int = 0
    notices: int = 0
    emptied_s: float | None = None


class Processed(msgspec.Struct, frozen=True, gc=False):
    """The processing of one topic at one broker, since its agent started.

    `interval_ms`: what one message takes in a worker, the mean of the last seconds that had any; None before the first.
    `queue`: messages that wait now. Each message was `processed`, or its processor `raised`, `hung` beyond its limit or
    `died` with its process, or it was `dropped` because the queue was full or the wait too long. `errors`: the last of each kind, newest last.
    """

    topic: str
    interval_ms: float | None = None
    queue: int = 0
    processed: int = 0
    raised: int = 0
    hung: int = 0
    died: int = 0
    dropped: int = 0
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """One broker, one interval.

    `out_bytes_per_s` is measured at the server, so it may be more than its topics' `bytes_out` together: protocol,
    forwarding, and clients that nobody counts. `capacity_bytes_per_s` and `most` are configured, never measured.

    `handed_over`: what moves cost the agent, all topics together, with the longest `emptied_s`; `handovers`: the topics
    that cost it most. `processed`: topics that have a processor here, or had one.
    """

    broker: str
    at_s: float
    out_bytes_per_s: float
    capacity_bytes_per_s: float
    topics: tuple[TopicLoad, ...] = ()
    used: Resources = UNKNOWN
    most: Resources = UNKNOWN
    handed_over: Handover = Handover("")
    handovers: tuple[Handover, ...] = ()
    processed: tuple[Processed, ...] = ()

    @property
    def load_ratio(self) -> float:
        """Dynamoth's LR (equation 1): measured outgoing bandwidth over the most the server supports."""
        return self.out_bytes_per_s / self.capacity_bytes_per_s
