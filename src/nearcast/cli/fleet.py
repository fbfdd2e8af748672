"""The brokers that there are now: those of the file, and those that came, without those that went."""

from dataclasses import replace

from nearcast.transport.config import BrokerAt, Config
from nearcast.wire.control import Status


def as_it_is(config: Config, status: Status | None) -> Config:
    """For commands that look at every broker; not for clients, whose first ring is the file's."""
    if status is None or not status.brokers:
        return config
    brokers = {
        each.name: config.brokers.get(each.name) or BrokerAt(config.added(each.url), each.site)
        for each in status.brokers
        if each.name in config.brokers or each.url
    }
    return replace(config, brokers=brokers)
