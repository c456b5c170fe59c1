"""Progress bars and status lines on a terminal's standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(title: str, *, after: float = 1.0) -> Iterator[Callable[[int, int], None]]:
    """Give a function of (done, all) that draws a bar once `after` seconds have passed."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        started, task = time.monotonic(), progress.add_task(title, total=None, visible=False)

        def update(done: int, total: int) -> None:
            is_late = time.monotonic() - started >= after
            progress.update(task, completed=done, total=total, visible=is_late)

        yield update


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """Give a function that shows the current activity."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as line:
        yield lambda text: line.update(Text(text))
