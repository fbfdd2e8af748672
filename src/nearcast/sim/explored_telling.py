"""Messages as a reader of a trace wants them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nearcast.domain.report import Discontinuity, Gap
from nearcast.wire.control import Generation, Hello, Launch, Marker, Prepare, Release, Switch, Tell, Welcome
from nearcast.wire.envelope import END, HEARTBEAT, Envelope

_KINDS = {0: "", END: "END ", HEARTBEAT: "mark ", END | HEARTBEAT: "close "}


def told(message: object) -> str:
    match message:
        case Envelope():
            return _told_envelope(message)
        case Marker(source=source, generation=generation):
            return f"Marker {generation} of {source}"
        case Welcome(route=route) | Switch(route=route):
            where = f"{route.strategy} on {'+'.join(route.brokers)}"
            return f"{type(message).__name__} to epoch {route.epoch} ({where}), floor {message.floor}"
        case Prepare(epoch=epoch) | Tell(epoch=epoch):
            return f"{type(message).__name__} epoch {epoch}, term {message.term}"
        case Release(floor=floor):
            return f"Release below {floor}, term {message.term}"
        case Hello(epoch=epoch):
            return f"Hello, knowing epoch {epoch}"
        case Generation(generation=generation) | Launch(generation=generation):
            return f"{type(message).__name__} {generation}"
        case Gap(publisher=publisher, first=first, last=last):
            return f"a gap of {publisher}: {_or(first, 'the start')} to {_or(last, 'nobody knows where')}"
        case Discontinuity(broker=broker, from_s=from_s, to_s=to_s):
            return f"a discontinuity at {broker} from {from_s:g} s to {'now on' if to_s is None else f'{to_s:g} s'}"
        case str():
            return message
        case tuple():
            return " ".join(str(part) for part in message)
        case _:
            return type(message).__name__


def _told_envelope(envelope: Envelope) -> str:
    if envelope.notice is not None:
        text = told(envelope.notice)
    else:
        kind = _KINDS[envelope.flags & (END | HEARTBEAT)]
        text = f"{kind}{envelope.publisher}:{envelope.seq} (epoch {envelope.epoch}, leg from {envelope.first})"
    if envelope.trail is not None:
        text += f", forwarded by A{envelope.trail.source}, been to {'+'.join(envelope.trail.visited)}"
    return text


def _or(number: int | None, text: str) -> str:
    return text if number is None else str(number)


_ROUTINE = re.compile(r": (Ack|Bye|Hello, .*|Quiet)$")
_WELCOME = re.compile(r"-> (\w+): Welcome to epoch (\d+)")


def condensed(trace: Sequence[str]) -> list[str]:
    """A trace without what happens all the time: questions, what is known already, and time in small steps."""
    out: list[str] = []
    known: dict[str, int] = {}
    for step in trace:
        welcome = _WELCOME.search(step)
        if "  [" not in step:
            if _ROUTINE.search(step):
                continue
            if welcome and int(welcome[2]) <= known.get(welcome[1], 0):
                continue
            if step.startswith("time passes") and out and re.fullmatch(r"time passes to \S+ s", out[-1]):
                out.pop()
        if welcome:
            known[welcome[1]] = int(welcome[2])
        out.append(step)
    return out
