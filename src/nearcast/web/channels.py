"""Channels as the pipeline's store tells of them. Without a pipeline there are none."""

import asyncio
import contextlib
import time

from nearcast.client.open import unique_name
from nearcast.domain.channel import Channel
from nearcast.domain.errors import ChannelError, NearcastError
from nearcast.pipeline.catalog import BUCKET, CatalogStore
from nearcast.store.nats_kv import NatsKvStore
from nearcast.transport.config import Config
from nearcast.web.models import ChannelTold

_FRESH_S = 2.0


class ChannelReader:
    """Asks at most every other second, however many ask."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._store: NatsKvStore | None = None
        self.known: tuple[ChannelTold, ...] = ()
        self._asked_s = -_FRESH_S
        self._asking = asyncio.Lock()

    async def read(self) -> tuple[ChannelTold, ...]:
        """Raises StoreDown when the store cannot be reached."""
        async with self._asking:
            if time.monotonic() >= self._asked_s + _FRESH_S:
                self.known = await self._read()
                self._asked_s = time.monotonic()
            return self.known

    async def refresh(self, every_s: float) -> None:
        """For ever, for whoever only looks at `known`."""
        while True:
            with contextlib.suppress(NearcastError):
                await self.read()
            await asyncio.sleep(every_s)

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()

    async def _read(self) -> tuple[ChannelTold, ...]:
        if self._store is None:
            store = NatsKvStore(self._config.control, name=unique_name("web"), bucket=BUCKET)
            await store.open()
            self._store = store
        catalog = await CatalogStore(self._store).read()
        found = [await _told(self._store, each) for each in catalog.channels]
        return tuple(each for each in found if each is not None)


async def _told(store: NatsKvStore, channel: Channel) -> ChannelTold | None:
    from nearcast.pipeline.progress import progress_of  # noqa: PLC0415  # brings pyarrow: only where there are channels

    try:
        progress = await progress_of(store, channel)
    except ChannelError:
        return None  # dropped meanwhile
    except NearcastError as error:
        return ChannelTold(channel.name, channel.spec.period_s, channel.spec.push, 0, 0, 0, None, None, 0, str(error))
    last = progress.recent[-1] if progress.recent else None
    failed = progress.failures[-1] if progress.failures else None
    newest = failed is not None and (last is None or failed.at_s >= last.at_s)
    return ChannelTold(
        channel.name,
        channel.spec.period_s,
        channel.spec.push,
        progress.count,
        0 if last is None else last.rows,
        0 if last is None else last.keys,
        None if last is None else round(last.took_s, 4),
        None if last is None else round(last.late_s, 4),
        len(progress.failures),
        failed.reason if failed is not None and newest else "",
    )
