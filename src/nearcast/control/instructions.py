"""What the machines ask their shells to do. A shell carries instructions out in order and adds nothing of its own."""

from __future__ import annotations

import msgspec

from nearcast.domain.broker import Addresses
from nearcast.domain.report import Discontinuity, Gap
from nearcast.wire.channels import FromFollowers
from nearcast.wire.control import Prepare, Release, Tell, ToAgent, ToClient, ToCoordinator
from nearcast.wire.envelope import Envelope


class Instruction(msgspec.Struct, frozen=True, gc=False):
    pass


class Send(Instruction, frozen=True):
    """Publish on the machine's topic at this broker; or on its `inlet`, where it is processed first."""

    broker: str
    envelope: Envelope
    inlet: bool = False


class Say(Instruction, frozen=True):
    """To the agent beside this broker."""

    broker: str
    message: ToAgent | FromFollowers


class Attach(Instruction, frozen=True):
    """Subscribe to the topic, or its `inlet`, at this broker; `attached` follows once it is confirmed (rule 2)."""

    broker: str
    inlet: bool = False


class Detach(Instruction, frozen=True):
    """Leave, after what the broker had already matched has been received."""

    broker: str
    inlet: bool = False


class Deliver(Instruction, frozen=True):
    envelope: Envelope


class Report(Instruction, frozen=True):
    what: Gap | Discontinuity


class Ready(Instruction, frozen=True):
    """`subscribe()` may return: from here on the promise holds."""


class Learn(Instruction, frozen=True):
    """Where brokers are that what follows may name."""

    addresses: Addresses


class Reply(Instruction, frozen=True):
    """An agent's word to one client, through its own broker."""

    client: str
    message: ToClient


class Answer(Instruction, frozen=True):
    """An agent's word to the coordinator."""

    message: ToCoordinator


class Command(Instruction, frozen=True):
    """The coordinator's word to the agent of this broker."""

    broker: str
    message: Prepare | Tell | Release
