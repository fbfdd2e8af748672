"""Values that say what exists: written at the revision that was read, and known to be written or not."""

from nearcast.domain.errors import Conflict, StoreDown
from nearcast.store.store import Store
from nearcast.transport.clock import Clock

_RETRY_S = 0.2


async def put_surely(store: Store, clock: Clock, key: str, value: bytes, expected: int) -> int:
    """Until it is known whether it was written, and at which revision. Raises Conflict when it was not.

    `value` must be one that nobody else would write at this revision.
    """
    while True:
        try:
            return await store.put(key, value, expected)
        except StoreDown:
            await clock.sleep(_RETRY_S)
        except Conflict:
            entry = await store.get(key)
            if entry is None or entry.value != value:  # else ours: a write whose answer was lost
                raise
            return entry.revision
