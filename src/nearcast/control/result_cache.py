"""The last results of keys, for those who come a little late: as many as there is room for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from nearcast.wire.channels import Result

_OVERHEAD_BYTES = 200  # of a result without its rows


class ResultCache:
    """Of each key results that follow each other without a hole. `most_bytes`: of all of them."""

    __slots__ = ("_kept", "_most_bytes", "_order", "used_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.used_bytes = 0
        self._most_bytes = most_bytes
        self._kept: dict[str, deque[Result]] = {}
        self._order: deque[tuple[str, int]] = deque()  # (key, execution), with what has been forgotten since

    def after(self, key: str, execution: int) -> list[Result] | None:
        """All that came after it; None where that is not kept from there on."""
        results = self._kept.get(key)
        if not results or results[0].previous > execution:
            return None
        return [each for each in results if each.execution > execution]

    def keep(self, key: str, result: Result) -> None:
        results = self._kept.setdefault(key, deque())
        if results and results[-1].execution != result.previous:
            self.used_bytes -= _size(results)
            results.clear()
        results.append(result)
        self._order.append((key, result.execution))
        self.used_bytes += _size((result,))
        while self.used_bytes > self._most_bytes:
            oldest, execution = self._order.popleft()
            kept = self._kept.get(oldest)
            if kept and kept[0].execution == execution:
                self.used_bytes -= _size((kept.popleft(),))

    def forget(self, key: str) -> None:
        self.used_bytes -= _size(self._kept.pop(key, ()))
        if len(self._order) > self._most_bytes // _OVERHEAD_BYTES:  # keys came and went: so many cannot be kept
            alive = {(key, each.execution) for key, results in self._kept.items() for each in results}
            self._order = deque(each for each in self._order if each in alive)


def _size(results: Iterable[Result]) -> int:
    return sum(len(each.rows) + _OVERHEAD_BYTES for each in results)
