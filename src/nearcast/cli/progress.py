"""The progress bar of a long command: on stderr, and only when a person is watching it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from nearcast.lab.experiment import Progress, silent


@contextmanager
def progress_bar(*, wanted: bool) -> Iterator[Progress]:
    """A progress to hand to a run; a silent one when it is not wanted or stderr is no terminal."""
    if not (wanted and sys.stderr.isatty()):
        yield silent
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(done: int, total: int, doing: str) -> None:
            if doing not in tasks:
                tasks[doing] = bar.add_task(doing)
            bar.update(tasks[doing], completed=done, total=total)

        yield show
