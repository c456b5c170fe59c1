"""Progress bars and status lines on a terminal's standard error."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from podsim.packaged import before_loading
from podsim.quoting import visible


@contextmanager
def bar(title: str, *, after: float = 1.0) -> Iterator[Callable[..., None]]:
    """Give a function of (done, all, text). After `after` seconds a terminal shows a bar; a file or pipe gets a line.

    A file gets another each 5 s. A text is a line of its own: what a finished part gave.

    The seconds count from the start of a young process, whose user has waited since then.
    """
    with _shown(_Bar(title), after) as shown:
        yield shown.update


@contextmanager
def _shown(bar: _Bar, after: float) -> Iterator[_Bar]:
    """Show a bar from another thread inside the block."""
    used, is_over = time.process_time(), threading.Event()
    process = os.getpid()

    def show() -> None:
        if os.getpid() == process:  # and not in ranks that it forks
            bar.show()

    before_loading[:] = [show]
    teller = threading.Thread(
        target=bar.tell, args=(is_over, after - used if used < after else after), daemon=True
    )
    teller.start()
    try:
        yield bar
    finally:
        is_over.set()
        teller.join()
        bar.close()
        before_loading.clear()


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show a terminal that work goes on, where nothing counts its parts."""
    if sys.stderr.isatty():
        with bar(title):
            yield
    else:
        yield


class _Bar:
    """Work of which a part is done, shown from another thread while this one computes."""

    def __init__(self, title: str) -> None:
        self.title, self.done, self.total, self.is_said = title, 0, 0, False
        self.started = time.monotonic()
        self.draw: Callable[[], None] = lambda: None
        self.close: Callable[[], None] = lambda: None
        self.write: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)

    def update(self, done: int, total: int, text: str = "") -> None:
        """Set the parts that are done, and all; write a text as a line of its own."""
        self.done, self.total = done, total
        self.draw()
        if text:
            self.write(f"podsim: {visible(text)}")

    def name(self, title: str) -> None:
        """Set the current activity."""
        self.title = visible(title)
        self.draw()

    def tell(self, is_over: threading.Event, after: float) -> None:
        """Show it after some seconds; to a file or pipe, say it again each 5 s."""
        if is_over.wait(after):
            return
        self.show()
        while not sys.stderr.isatty() and not is_over.wait(_PAUSE):
            self._say()

    def show(self) -> None:
        """Draw the bar on a terminal, or say what podsim does; once."""
        if self.is_said:
            return
        self.is_said = True
        if not sys.stderr.isatty():
            self._say()
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress

        progress = Progress(console=Console(stderr=True), transient=True)
        task = progress.add_task(self.title, total=None)
        self.draw = lambda: progress.update(
            task, description=escape(self.title), completed=self.done, total=self.total or None
        )
        self.close = progress.stop
        self.write = lambda text: progress.console.print(text, markup=False, highlight=False)
        self.draw()
        progress.start()

    def _say(self) -> None:
        """Write a line with the parts that are done, and the time left where a part took long enough to tell."""
        took = time.monotonic() - self.started
        amount = (
            f": {self.done:,} of {self.total:,}" if self.total else f", {took:.0f} s" if took > _PAUSE else ""
        )
        is_long = 0 < self.done < self.total and took > _PAUSE
        left = f", {took / self.done * (self.total - self.done):,.0f} s left" if is_long else ""
        print(f"podsim: {self.title}{amount}{left} …", file=sys.stderr, flush=True)


_PAUSE = 5.0
"""s between two lines where no terminal shows the current activity"""


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """Give a function that shows the current activity."""
    with _shown(_Bar("at work"), 1.0) as shown:
        yield shown.name
