"""Whether a broker answers, and how far away it is."""

import asyncio

from nearcast.brokers.connect import connector
from nearcast.client.open import unique_name
from nearcast.domain.errors import LinkError
from nearcast.transport.config import Config

_PATIENCE_S = 5.0


async def round_trips(config: Config, site: str, broker: str, count: int) -> list[float] | str:
    """Seconds of `count` round trips over one connection; or why there are none."""
    connect = connector(config.endpoints(site), name=unique_name("probe"))
    try:
        async with asyncio.timeout(_PATIENCE_S + count):
            link = await connect(broker, lambda _up: None)
            try:
                return [await link.rtt() for _ in range(count)]
            finally:
                await link.close()
    except TimeoutError:
        return f"no answer within {_PATIENCE_S + count:.0f} s"
    except LinkError as error:
        return str(error)
