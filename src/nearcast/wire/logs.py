"""Orders about persistent topics."""

from __future__ import annotations

import msgspec

from nearcast.domain.log import LogSpec


class KeepOrder(msgspec.Struct, frozen=True, tag=True):
    """Keep the topic's messages from now on, as `spec` says; of one that is persistent already, how long."""

    asker: str
    number: int
    topic: str
    spec: LogSpec
    reason: str = ""
