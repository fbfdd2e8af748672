"""The logs that one broker's site keeps: each segment is a JetStream stream on the servers of the broker's cluster.

A record that is appended is on the disks of a majority of its replicas: the servers run with `sync_interval: always`.
Every publisher has a subject of its own in the stream, and appends by compare-and-set on it: a record is there once,
and after the publisher's record before it, whatever connections and servers do meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import nats.errors
from nats.aio.msg import Msg
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from nearcast.domain.errors import LogDown, LogRefused
from nearcast.domain.log import LogSpec
from nearcast.transport.clock import Clock
from nearcast.transport.endpoint import NATS, Endpoint
from nearcast.transport.nats_pull import Puller
from nearcast.transport.nats_session import Session

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_SEAL = "seal"
_HEARTBEAT_S = 1.0
_WRONG_LAST = {10071, 10164}
_NO_MESSAGE = {10037, 10043}
_NO_STREAM = {10059}
_REFUSED_CODES = {400, 409}
NO_DISK = (
    "Redis cannot confirm that a message is on disk before it is acknowledged: persistent topics need a NATS broker"
)


class Stored(NamedTuple):
    seq: int
    publisher: int  # 0 for the mark that seals a segment
    data: bytes
    at_s: float


class SegmentState(NamedTuple):
    """`first` and `last` records that are there, by their numbers."""

    first: int
    last: int
    records: int
    size_bytes: int


class Replica(NamedTuple):
    """`current`: has all that the leader has."""

    server: str
    leads: bool
    current: bool


class LogSite:
    """One broker's. Every method raises LogDown when a majority of the replicas cannot be reached within 2 s."""

    def __init__(self, broker: str, endpoints: Callable[[], Sequence[Endpoint]], *, name: str, clock: Clock) -> None:
        """`endpoints`: of the broker's servers, asked before every attempt to connect."""
        self.broker = broker
        self._endpoints = endpoints
        self._session = Session(self._nats, name, clock, what=f"the log of {broker!r}", down=LogDown)

    def start(self) -> None:
        """Raises LogRefused for a broker that keeps no logs."""
        self._must_be_nats(self._endpoints())
        if self._session.closed:
            self._session.start()

    async def close(self) -> None:
        if not self._session.closed:
            await self._session.close()

    async def open_segment(self, name: str, topic: str, spec: LogSpec) -> None:
        """If it is absent; several may do it at once. Raises LogRefused when it cannot be kept here as asked."""
        config = _config(name, topic, spec)
        async with self._session.asking(f"open {name!r}") as connection:
            try:
                await connection.js.add_stream(config)
            except (ServiceUnavailableError, nats.errors.NoRespondersError) as error:
                if isinstance(error, ServiceUnavailableError) and error.err_code is not None:
                    raise
                raise LogRefused(
                    f"broker {self.broker!r} keeps no logs: its servers run without JetStream"
                    " (`nearcast up --cluster 3` starts some that have it)"
                ) from error
            except APIError as error:
                if error.code in _REFUSED_CODES or error.err_code in {10005, 10074}:
                    raise LogRefused(
                        f"topic {topic!r} cannot have {spec.replicas} replicas at broker {self.broker!r}:"
                        f" {error.description}"
                    ) from error
                raise

    async def limit(self, name: str, topic: str, spec: LogSpec) -> None:
        """Keeps what is there, and what comes, as long as `spec` says from now on."""
        async with self._session.asking(f"change {name!r}") as connection:
            await connection.js.update_stream(_config(name, topic, spec))

    async def append(self, name: str, publisher: int, data: bytes, after: int) -> int | None:
        """The record's number, when the quorum has written it. None: the publisher's last record is not `after`."""
        async with self._session.asking(f"append to {name!r}") as connection:
            try:
                ack = await connection.js.publish(_subject(name, publisher), data, headers={_EXPECTED: str(after)})
            except APIError as error:
                if error.err_code in _WRONG_LAST:
                    return None
                raise
            return ack.seq

    async def last(self, name: str, publisher: int) -> Stored | None:
        """The newest record of this publisher, as the stream's leader knows it."""
        async with self._session.asking(f"read {name!r}") as connection:
            try:
                found = await connection.js.get_last_msg(name, _subject(name, publisher), direct=False)
            except NotFoundError as error:
                if error.err_code in _NO_MESSAGE:
                    return None
                raise
            return Stored(found.seq or 0, publisher, found.data or b"", 0.0)

    async def seal(self, name: str) -> int:
        """The number of a mark behind all that was acknowledged before; 0 when there is nothing before it.

        There is one mark, however often this is asked for. A record that is written after it, by somebody whose lease
        was out, counts for nobody.
        """
        async with self._session.asking(f"seal {name!r}") as connection:
            js, subject = connection.js, f"{_prefix(name)}{_SEAL}"
            try:
                mark = (await js.publish(subject, b"", headers={_EXPECTED: "0"})).seq
            except APIError as error:
                if error.err_code not in _WRONG_LAST:
                    raise
                mark = (await js.get_last_msg(name, subject, direct=False)).seq or 0
            return 0 if mark == 1 else mark

    async def mark(self, name: str) -> int | None:
        """The number of the mark that seals it, as the stream's leader knows it; None when there is none."""
        async with self._session.asking(f"look at {name!r}") as connection:
            try:
                return (await connection.js.get_last_msg(name, f"{_prefix(name)}{_SEAL}", direct=False)).seq
            except NotFoundError as error:
                if error.err_code in _NO_MESSAGE | _NO_STREAM:
                    return None
                raise

    async def state(self, name: str) -> SegmentState | None:
        """None when it is not there."""
        async with self._session.asking(f"look at {name!r}") as connection:
            try:
                state = (await connection.js.stream_info(name)).state
            except NotFoundError as error:
                if error.err_code in _NO_STREAM:
                    return None
                raise
            return SegmentState(state.first_seq, state.last_seq, state.messages, state.bytes)

    async def replicas(self, name: str) -> tuple[Replica, ...]:
        """Where the segment is kept, the leader first; none when nobody leads now."""
        async with self._session.asking(f"look at {name!r}") as connection:
            cluster = (await connection.js.stream_info(name)).cluster
            if cluster is None or cluster.leader is None:
                return ()
            others = [Replica(peer.name or "", False, bool(peer.current)) for peer in cluster.replicas or ()]
            return (Replica(cluster.leader, True, True), *others)

    async def remove(self, name: str) -> None:
        async with self._session.asking(f"remove {name!r}") as connection:
            try:
                await connection.js.delete_stream(name)
            except NotFoundError as error:
                if error.err_code not in _NO_STREAM:
                    raise

    async def read(
        self, name: str, *, after: int = 0, since_s: float | None = None, publisher: int | None = None
    ) -> "SegmentReader":
        """Everything behind a record, or since a time; of one publisher, or of all."""
        async with self._session.asking(f"read {name!r}") as connection:
            puller = Puller(connection, name, f"read {name!r}", down=LogDown, heartbeat_s=_HEARTBEAT_S)
            subjects = f"{_prefix(name)}*" if publisher is None else _subject(name, publisher)
            await puller.make(subjects, after=after, since_s=since_s)
            return SegmentReader(puller, name)

    async def first_since(self, name: str, since_s: float) -> int | None:
        """The number of the first record that is not older; None when there is none."""
        async with self._session.asking(f"read {name!r}") as connection:
            puller = Puller(connection, name, f"read {name!r}", down=LogDown)
            try:
                await puller.make(f"{_prefix(name)}*", since_s=since_s)
                found = await puller.next(wait=False)
            finally:
                await puller.close()
            return None if found is None else found.metadata.sequence.stream

    def _nats(self) -> Sequence[Endpoint]:
        endpoints = self._endpoints()
        self._must_be_nats(endpoints)
        return endpoints

    def _must_be_nats(self, endpoints: Sequence[Endpoint]) -> None:
        if endpoints[0].kind != NATS:
            raise LogRefused(f"broker {self.broker!r} keeps no logs: {NO_DISK}")


class SegmentReader:
    """Raises LogDown when it has to be made anew: after the last record that it gave."""

    def __init__(self, puller: Puller, name: str) -> None:
        self._puller = puller
        self._prefix = _prefix(name)

    async def next(self) -> Stored | None:
        """None when nothing came for a while: ask again."""
        message = await self._puller.next(wait=True)
        return None if message is None else self._stored(message)

    async def close(self) -> None:
        await self._puller.close()

    def _stored(self, message: Msg) -> Stored:
        whose = message.subject.removeprefix(self._prefix)
        publisher = 0 if whose == _SEAL else int(whose, 16)
        metadata = message.metadata
        return Stored(metadata.sequence.stream, publisher, message.data, metadata.timestamp.timestamp())


class LogSites:
    """Those that one process uses, connected to on first use."""

    def __init__(self, endpoints: Callable[[str], Sequence[Endpoint]], *, name: str, clock: Clock) -> None:
        self._endpoints = endpoints
        self._name = name
        self._clock = clock
        self._sites: dict[str, LogSite] = {}

    def at(self, broker: str) -> LogSite:
        """Raises LogRefused for a broker that keeps no logs, ConfigError for one that nobody has told of."""
        site = self._sites.get(broker)
        if site is None:
            site = LogSite(broker, lambda: self._endpoints(broker), name=self._name, clock=self._clock)
            site.start()
            self._sites[broker] = site
        return site

    async def close(self) -> None:
        await asyncio.gather(*(site.close() for site in self._sites.values()))


def _prefix(name: str) -> str:
    return f"_nearcast.log.{name}."


def _subject(name: str, publisher: int) -> str:
    return f"{_prefix(name)}{publisher:016x}"


def _config(name: str, topic: str, spec: LogSpec) -> StreamConfig:
    return StreamConfig(
        name=name,
        description=f"nearcast: a segment of the log of {topic}",
        subjects=[f"{_prefix(name)}*"],
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        discard=DiscardPolicy.OLD,
        num_replicas=spec.replicas,
        max_age=spec.retain_s or 0,
        max_bytes=spec.retain_bytes or -1,
        max_msgs=spec.retain_messages or -1,
        duplicate_window=min(1.0, spec.retain_s or 1.0),  # not used: appending is by compare-and-set
        allow_direct=False,
    )
