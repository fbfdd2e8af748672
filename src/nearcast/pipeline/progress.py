"""How far channels have come, in the store: what every command sees without Spark."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from nearcast.domain.channel import Channel
from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import ChannelError, Conflict, StoreError
from nearcast.domain.execution import RECENT, Execution, Progress, Window
from nearcast.domain.schema import Column, Schema
from nearcast.pipeline.files import remove_folder
from nearcast.pipeline.tables import Table, in_thread
from nearcast.store.store import ABSENT, Store
from nearcast.transport.clock import Clock

PARAMETER = "p_"
"""Before a parameter's name: its column in the table of subscriptions."""

_KEYS = "channel/"
_decoder = msgspec.json.Decoder(Progress)
_older = msgspec.json.Decoder(tuple[str, tuple[Execution, ...]])


async def begin(store: Store, channel: Channel, tables: Mapping[str, Table]) -> None:
    """What its datasets have now is not new for it; what comes is kept for it. Does nothing when it has begun already.

    `tables`: of its datasets, by name.
    """
    if await store.get(key_of(channel)) is not None:
        return
    windows: dict[str, Window] = {}
    for name, table in tables.items():
        version = (await table.head()).version
        await table.hold(channel.work, version)
        windows[name] = Window(version, version)
    first = Progress.created(channel.first, channel.at_s, windows)
    with suppress(Conflict):
        await store.put(key_of(channel), msgspec.json.encode(first), ABSENT)


async def progress_of(store: Store, channel: Channel) -> Progress:
    """Raises ChannelError when the channel has been dropped."""
    return (await read_progress(store, channel))[0]


class Kept(NamedTuple):
    """`executions` above a number, the oldest first. Of those up to `floor` no results are kept; other numbers that are
    not among them are of executions that were killed, or failed: they have none.
    """

    floor: int
    executions: tuple[Execution, ...]


async def kept_of(store: Store, folder: Path, channel: Channel, after: int) -> Kept:
    """Those with a number above `after`. Raises ChannelError when the channel has been dropped."""
    progress = await progress_of(store, channel)
    found, older, after = progress.executions, progress.older, max(after, progress.floor)
    while older and found[0].number > after + 1:
        value = await in_thread((folder_of(folder, channel) / older).read_bytes)
        older, earlier = _older.decode(value)
        found = (*earlier, *found)
    return Kept(progress.floor, tuple(each for each in found if each.number > after))


def put_aside(progress: Progress) -> bytes:
    """What a file has to which `older` leads: the first of the executions, and where those before them are."""
    return msgspec.json.encode((progress.older, progress.executions[:RECENT]))


async def drop(store: Store, folder: Path, channel: Channel, tables: Mapping[str, Table]) -> None:
    """Its executions, results and subscriptions, once it is no longer in the catalog."""
    for table in tables.values():
        await table.hold(channel.work, None)
    entry = await store.get(key_of(channel))
    if entry is not None:
        await store.delete(key_of(channel), entry.revision)
    await subscriptions_table(store, folder, channel).drop()
    await in_thread(remove_folder, folder_of(folder, channel))


def key_of(channel: Channel) -> str:
    return _KEYS + channel.id


def folder_of(folder: Path, channel: Channel) -> Path:
    return folder / "channels" / f"{channel.name}-{channel.id}"


def subscriptions_table(store: Store, folder: Path, channel: Channel, clock: Clock | None = None) -> Table:
    return Table(store, folder / "subscriptions", subscriptions_of(channel), clock)


async def read_progress(store: Store, channel: Channel) -> tuple[Progress, int]:
    entry = await store.get(key_of(channel))
    if entry is None or entry.value is None:
        raise ChannelError(f"channel {channel.name} (id {channel.id}) has been dropped")
    try:
        return _decoder.decode(entry.value), entry.revision
    except msgspec.MsgspecError as error:
        raise StoreError(f"store: the value of {key_of(channel)!r} is not readable: {error}") from error


def subscriptions_of(channel: Channel) -> Dataset:
    """The table of distinct subscriptions: a keyed dataset of the channel's own."""
    parameters = tuple(Column(f"{PARAMETER}{each.name}", each.type) for each in channel.spec.parameters)
    columns = (Column("key", "STRING"), Column("active", "BOOLEAN"), *parameters)
    return Dataset(f"{channel.name[:40]}_subscriptions", f"{channel.id}-subscriptions", Schema(columns), key="key")
