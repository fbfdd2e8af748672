"""What was decided and ordered lately, as the store has it: followed, not asked for."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from itertools import islice
from typing import TypeVar

from nearcast.coordinator.journal import Journal
from nearcast.domain.decision import Decision
from nearcast.domain.errors import StoreError
from nearcast.domain.task import Task
from nearcast.web.models import Happening

MOST = 5000
_RETRY_S = 2.0
_log = logging.getLogger(__name__)

_Kept = TypeVar("_Kept", Decision, Task)

Decided = Callable[[Decision | None, Decision], None]
"""(as it was known before, as it is now)"""


class Chronicle:
    """The newest decisions of all topics, `MOST` of them, and the newest tasks."""

    def __init__(self, changed: Callable[[], None], decided: Decided) -> None:
        self.decisions: dict[str, Decision] = {}
        self.tasks: dict[str, Task] = {}
        self._changed = changed
        self._decided = decided

    async def follow(self, journal: Journal) -> None:
        """For ever."""
        while True:
            try:
                async with aclosing(journal.watch()) as found:
                    async for values in found:
                        self.heard(values)
            except StoreError as error:
                _log.warning("decisions are not followed: %s", error)
            await asyncio.sleep(_RETRY_S)

    def heard(self, values: tuple[Decision, ...] | tuple[Task, ...]) -> None:
        for each in values:
            if isinstance(each, Task):
                self.tasks[each.id] = each
            elif self.decisions.get(each.id) != each:
                self._decided(self.decisions.get(each.id), each)
                self.decisions[each.id] = each
        _prune(self.decisions)
        _prune(self.tasks)
        self._changed()

    def recent(self, limit: int, *, topic: str = "", before_s: float | None = None) -> list[Happening]:
        """The newest first."""
        found = [
            *(Happening(each.at_s, decision=each) for each in self.decisions.values() if topic in {"", each.topic}),
            *(
                Happening(each.at_s, task=each)
                for each in self.tasks.values()
                if topic == "" or each.subject == f"topic {topic}"
            ),
        ]
        found.sort(key=lambda each: -each.at_s)
        return list(islice((each for each in found if before_s is None or each.at_s < before_s), limit))


def _prune(kept: dict[str, _Kept]) -> None:
    """Seldom, and then of many."""
    if len(kept) > MOST + MOST // 5:
        for old in sorted(kept.values(), key=lambda each: each.at_s)[: len(kept) - MOST]:
            del kept[old.id]
