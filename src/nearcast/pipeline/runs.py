"""Runs of procedures, in the store."""

import msgspec

from nearcast.domain.errors import StoreError
from nearcast.domain.procedure import Procedure, Runs
from nearcast.store.store import ABSENT, Store

_KEYS = "procedure/"
_decoder = msgspec.json.Decoder(Runs)


async def runs_of(store: Store, procedure: Procedure) -> tuple[Runs, int]:
    entry = await store.get(key_of(procedure))
    if entry is None or entry.value is None:
        return Runs(), ABSENT
    try:
        return _decoder.decode(entry.value), entry.revision
    except msgspec.MsgspecError as error:
        raise StoreError(f"store: the value of {key_of(procedure)!r} is not readable: {error}") from error


async def forget(store: Store, procedure: Procedure) -> None:
    """Its runs, once it is no longer in the catalog."""
    entry = await store.get(key_of(procedure))
    if entry is not None:
        await store.delete(key_of(procedure), entry.revision)


def key_of(procedure: Procedure) -> str:
    return _KEYS + procedure.id
