"""Servers on demand: what a coordinator asks for, whoever provides it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Rented:
    """A server that runs, with its agent beside it. The address is without credentials."""

    url: str
    site: str = ""
    out_bytes_per_s: float | None = None


class Provisioner(Protocol):
    """Both may be asked again, by another coordinator, for what an earlier one had asked for already."""

    async def rent(self, name: str) -> Rented:
        """Returns when the server runs and its agent has been started; at once for one that is there.

        Raises FleetError when there is none to be had now: ask again later.
        """
        ...

    async def release(self, name: str) -> None:
        """Returns when it is gone. Does nothing when there is none of this name. Raises FleetError: ask again later."""
        ...
