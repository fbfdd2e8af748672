"""The rules of a move, each with a switch.

Production code runs with every rule on. The switches exist so that the explorer and the seeds can show what each rule
is for: with one off, they find the message that is lost, repeated or out of order (docs/protocol.md has the table).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Rules:
    prepare_first: bool = True  # 1: prepare, then tell
    confirm: bool = True  # 2: a subscription counts when a probe came back through it
    barrier: bool = True  # 3: markers through every broker of the transition before a subscriber leaves one
    linger: bool = True  # 3: and a while after the last of them
    sessions: bool = True  # 4: a forwarding path is a session with a counter
    visited: bool = True  # 5: forward only where the message has not been
    legs: bool = True  # 6: END, leg starts and high-water marks order a publisher's messages
    leases: bool = True  # 7: routes are leases
    hello_again: bool = True  # 8: every reconnect says hello again
    agent_leases: bool = True  # 9: agents hold a lease too
    terms: bool = True  # 10: forward only in time, fenced by the leader's term
    pin_ring: bool = True  # 11: a ring change is a mass move

    def without(self, name: str) -> Rules:
        return replace(self, **{name: False})


ALL_ON = Rules()
NAMES = tuple(field.name for field in fields(Rules))
NUMBER = dict(zip(NAMES, (1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11), strict=True))
