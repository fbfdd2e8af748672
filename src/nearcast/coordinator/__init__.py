"""The coordinator: the only writer of ownership."""

from nearcast.coordinator.coordinator import Coordinator
from nearcast.coordinator.operator import Operator

__all__ = ["Coordinator", "Operator"]
