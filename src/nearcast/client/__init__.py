"""The client library."""

from nearcast.client.client import Client
from nearcast.client.subscription import Overflow, SlowConsumer, Subscription

__all__ = ["Client", "Overflow", "SlowConsumer", "Subscription"]
