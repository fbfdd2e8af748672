"""What a feed promises, by what its source keeps."""

from nearcast.cli.connect import records_of
from nearcast.domain.dataset import Feed
from nearcast.pipeline.sources import FILE, HTTP, parse_source
from nearcast.transport.config import Config

EXACTLY_ONCE, AT_MOST_ONCE, ONCE_PER_KEY = "exactly once", "at most once", "once per idempotency key"


async def promise_of(config: Config, feed: Feed) -> str:
    kind, topic, _ = parse_source(feed.source, feed.format)
    if kind == HTTP:
        return ONCE_PER_KEY
    if kind == FILE:
        return EXACTLY_ONCE
    async with records_of(config) as records:
        kept = any(each.topic == topic and each.log is not None for each in await records.load())
    return EXACTLY_ONCE if kept else AT_MOST_ONCE
