"""A worker process: takes jobs from the agent that started it, one at a time, and answers each.

`python -m nearcast.processing.worker FD`, where FD is its end of a socket pair. Frames in both directions are a length
of four bytes and MessagePack. It ends when the other end is closed, or with its parent. What a processor prints goes to
the agent's standard error.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import struct
import sys
import time

import msgspec

from nearcast.control.spool import Spool
from nearcast.domain.errors import ProcessorError
from nearcast.domain.message import Message
from nearcast.domain.processor import Processor
from nearcast.processing.calls import Call, load

LENGTH = struct.Struct("<I")
_PR_SET_PDEATHSIG = 1


class Load(msgspec.Struct, frozen=True, tag=True):
    """Be ready for this processor: answered like a job, with no results."""

    processor: Processor


class Run(msgspec.Struct, frozen=True, tag=True):
    """One message. `spool` is what has come to the topic's spool since this worker was last told of it, `count` is of
    all that ever came. `fresh`: it has not been told of this spool."""

    processor: Processor
    message: Message
    count: int
    spool: list[Message]
    fresh: bool = True


class Done(msgspec.Struct, frozen=True):
    results: tuple[bytes, ...] = ()
    error: str = ""
    took_s: float = 0.0


decode_order: msgspec.msgpack.Decoder[Load | Run] = msgspec.msgpack.Decoder(Load | Run)
decode_done: msgspec.msgpack.Decoder[Done] = msgspec.msgpack.Decoder(Done)
encode = msgspec.msgpack.Encoder().encode


class Worker:
    """Without the socket: orders in, answers out."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, Processor], Call] = {}  # by topic: SQL keeps the topic's spool in its tables
        self._spools: dict[str, Spool] = {}

    def answer(self, order: Load | Run) -> Done:
        try:
            if isinstance(order, Load):
                load(order.processor)
                return Done()
            spool = self._spool(order)
            call = self._call(order.message.topic, order.processor)
            begun_s = time.perf_counter()
            results = call(order.message, spool)
            return Done(results, took_s=time.perf_counter() - begun_s)
        except ProcessorError as error:
            return Done(error=str(error))
        except Exception as error:  # noqa: BLE001  # whatever a user's code raises is told, and the next one is processed
            return Done(error=f"{type(error).__name__}: {error}")

    def _call(self, topic: str, processor: Processor) -> Call:
        found = self._calls.get((topic, processor))
        if found is None:
            for key in [key for key in self._calls if key[0] == topic]:
                del self._calls[key]  # it was changed
            found = self._calls[topic, processor] = load(processor)
        return found

    def _spool(self, order: Run) -> Spool:
        topic = order.message.topic
        if order.fresh or topic not in self._spools:
            self._spools[topic] = Spool()
        spool = self._spools[topic]
        spool.resize(order.processor.spool)
        spool.count = order.count - len(order.spool)
        for each in order.spool:
            spool.append(each)
        return spool


def serve(connection: socket.socket) -> None:
    worker = Worker()
    with connection, connection.makefile("rwb") as stream:
        while head := stream.read(LENGTH.size):
            order = decode_order.decode(stream.read(LENGTH.unpack(head)[0]))
            done = encode(worker.answer(order))
            stream.write(LENGTH.pack(len(done)) + done)
            stream.flush()


def main() -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux only; elsewhere the closed socket ends us
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal it is for the agent, which ends us
    with contextlib.suppress(ConnectionError):
        serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
