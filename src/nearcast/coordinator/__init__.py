"""The coordinator: the only writer of ownership."""

from nearcast.coordinator.coordinator import Coordinator

__all__ = ["Coordinator"]
