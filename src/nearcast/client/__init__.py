"""The client library."""

from nearcast.client.blocking import BlockingClient, BlockingSubscription
from nearcast.client.client import Client
from nearcast.client.open import open_client
from nearcast.client.subscription import Overflow, SlowConsumer, Subscription

__all__ = [
    "BlockingClient",
    "BlockingSubscription",
    "Client",
    "Overflow",
    "SlowConsumer",
    "Subscription",
    "open_client",
]
