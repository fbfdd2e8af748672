"""A demo as it goes: a screen that is drawn anew on a terminal, elsewhere a line now and then."""

import asyncio
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live

_STEP_S = 0.5
_LINE_EVERY_S = 5.0


async def watch(
    screen: Callable[[], RenderableType],
    line: Callable[[], RenderableType],
    step: Callable[[], float | None],
    terminal: Console,
    *,
    quiet: bool,
) -> None:
    """Until `step`, which is called twice a second, gives no seconds any more."""
    live = Live(screen(), console=terminal, refresh_per_second=4) if terminal.is_terminal and not quiet else None
    told_s = 0.0
    if live is not None:
        live.start()
    try:
        while (elapsed_s := step()) is not None:
            if live is not None:
                live.update(screen())
            elif not quiet and elapsed_s >= told_s + _LINE_EVERY_S:
                told_s = elapsed_s
                terminal.print(line(), highlight=False, soft_wrap=True)
            await asyncio.sleep(_STEP_S)
    finally:
        if live is not None:
            live.stop()
