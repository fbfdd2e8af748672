"""Orders about the processing of topics."""

from __future__ import annotations

import msgspec

from nearcast.domain.processor import Processor


class ProcessOrder(msgspec.Struct, frozen=True, tag=True):
    """Process the topic's messages like this from now on; None: not any more."""

    asker: str
    number: int
    topic: str
    processor: Processor | None
    reason: str = ""
