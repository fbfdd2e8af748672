"""The elastic hashing that Dynamoth was measured against, by the rule in its authors' published code.

The paper says that servers shed 1/N of their load to a new one, which is what the policy `hash` does. The code that
they published gives less: of n servers each hands over 1/(n (n + 1)) of its topics, so that the new one gets that share
of all, and not 1/(n + 1). The first two servers keep a third of everything each, however many there are. For comparing
with the paper's figures only: nobody should run this.
"""

from nearcast.domain.plan import Plan, Step
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.limits import most_to_rent, wait_reason
from nearcast.policies.settings import Settings

NAME = "hash-published"


def published_hashing(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
    """Rent a server when one is above the high ratio; once it is there, every other hands over a few of its topics."""
    waiting = wait_reason(snapshot, settings, now_s)
    if waiting or not (snapshot.load_ratios > settings.high_ratio).any():
        return Plan(NAME, now_s)
    topics_of: dict[str, list[str]] = {}
    for at, topic in enumerate(snapshot.topics):
        topics_of.setdefault(snapshot.brokers_of(at)[0], []).append(topic)
    idle = [name for name, usable in zip(snapshot.brokers, snapshot.usable, strict=True) if usable]
    idle = [name for name in idle if name not in topics_of]
    if not idle:
        rent = 0 if snapshot.renting else min(1, most_to_rent(snapshot, settings))
        return Plan(NAME, now_s, rent=rent, reasons=("a server is overloaded",) if rent else ())
    return Plan(NAME, now_s, steps=tuple(_steps(topics_of, idle[0])))


def _steps(topics_of: dict[str, list[str]], new: str) -> list[Step]:
    count = len(topics_of)
    steps = []
    for broker, topics in sorted(topics_of.items()):
        given = round(len(topics) / (count * (count + 1)))
        every = len(topics) // given if given else len(topics)
        steps += [
            Step(topic, Strategy.SINGLE, (new,), Strategy.SINGLE, (broker,), f"{new} gets a share of {broker}'s topics")
            for topic in sorted(topics)[::every][:given]
        ]
    return steps
