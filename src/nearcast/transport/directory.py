"""Where one process finds each broker: what its file says, and what it was told since."""

from nearcast.domain.broker import Addresses
from nearcast.domain.errors import ConfigError
from nearcast.transport.config import Config
from nearcast.transport.endpoint import Endpoint


class Directory:
    """Asked by `connector` before every attempt to connect. `site` chooses the ways that the file has for it.

    A way of the file comes first: it says how this site reaches that broker. Then what was told, then the file's
    address. What is told is an address alone: user and password are those of the file's `[added]`, and TLS is its
    `[tls]` when the address asks for TLS. It comes in control messages, which are signed with the fleet's key.
    """

    def __init__(self, config: Config, site: str = "") -> None:
        """Raises ConfigError for a site that the file does not know."""
        self._config = config
        self._site = site
        self._from_file = config.endpoints(site)
        self._told: dict[str, Endpoint] = {}

    def learn(self, addresses: Addresses) -> None:
        """One that cannot be used changes nothing: whoever needs it is told at its next attempt that there is none."""
        for broker, url in addresses:
            try:
                self._told[broker] = self._config.added(url)
            except ConfigError:
                continue

    def __call__(self, broker: str) -> Endpoint:
        """Raises ConfigError for a broker that neither the file nor anybody has told of."""
        told = self._told.get(broker)
        if told is None or (self._site, broker) in self._config.ways:
            return self._from_file(broker)
        return told

    def servers(self, broker: str) -> tuple[Endpoint, ...]:
        """Of the broker's cluster; the first is where it is itself. Raises as above."""
        first = self(broker)
        in_file = broker in self._config.brokers and first == self._from_file(broker)
        return self._config.servers(broker, self._site) if in_file else (first,)
