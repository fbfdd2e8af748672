"""Records for feeds from http: each is handed over, whatever is killed, under a key by which it is taken once."""

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping

import msgspec

_TIMEOUT_S = 30.0
_RETRY_S = 0.5


class Feeder:
    """Of one feed. `url` is the pipeline's."""

    def __init__(self, url: str, feed: str) -> None:
        self._url = f"{url}/feeds/{feed}"
        self._feed = feed
        self._number = 0
        self.repeated = 0  # requests without an answer

    async def send(self, records: Iterable[Mapping[str, object]]) -> None:
        """Returns when they are on the pipeline's disk. Does nothing without records."""
        body = b"\n".join(map(msgspec.json.encode, records))
        if not body:
            return
        self._number += 1
        await asyncio.to_thread(self._post, body, f"{self._feed}-{self._number}")

    def _post(self, body: bytes, key: str) -> None:
        request = urllib.request.Request(self._url, body, {"Idempotency-Key": key})  # noqa: S310  # of this machine
        while True:
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310  # as above
                    return
            except (OSError, urllib.error.URLError):
                self.repeated += 1
                time.sleep(_RETRY_S)
