"""Progress bars and status lines on a terminal's standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from podsim.quoting import visible


@contextmanager
def bar(title: str, *, after: float = 1.0) -> Iterator[Callable[[int, int], None]]:
    """Give a function of (done, all). After `after` seconds a terminal shows a bar; a file or pipe gets a line.

    A file gets another each 5 s where it is known how many parts there are.

    The seconds count from the start of a young process, whose user has waited since then.
    """
    bar, used = _Bar(title), time.process_time()
    is_over = threading.Event()
    teller = threading.Thread(
        target=bar.tell, args=(is_over, after - used if used < after else after), daemon=True
    )
    teller.start()
    try:
        yield bar.update
    finally:
        is_over.set()
        teller.join()
        bar.close()


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
        self.title, self.done, self.total = title, 0, 0
        self.started = time.monotonic()
        self.draw: Callable[[], None] = lambda: None
        self.close: Callable[[], None] = lambda: None

    def update(self, done: int, total: int) -> None:
        """Set the parts that are done, and all."""
        self.done, self.total = done, total
        self.draw()

    def tell(self, is_over: threading.Event, after: float) -> None:
        """Show it after some seconds; to a file or pipe, say it again each 5 s where the parts are counted."""
        if is_over.wait(after):
            return
        self.show()
        while not sys.stderr.isatty() and not is_over.wait(_PAUSE):
            if self.total:
                self._say()

    def show(self) -> None:
        """Draw the bar on a terminal, or say once what podsim does."""
        if not sys.stderr.isatty():
            self._say()
            return
        from rich.console import Console
        from rich.progress import Progress

        progress = Progress(console=Console(stderr=True), transient=True)
        task = progress.add_task(self.title, total=None)
        self.draw = lambda: progress.update(task, completed=self.done, total=self.total or None)
        self.close = progress.stop
        self.draw()
        progress.start()

    def _say(self) -> None:
        """Write a line with the parts that are done, and the time left where a part took long enough to tell."""
        took = time.monotonic() - self.started
        amount = f": {self.done:,} of {self.total:,}" if self.total else ""
        is_long = 0 < self.done < self.total and took > _PAUSE
        left = f", {took / self.done * (self.total - self.done):,.0f} s left" if is_long else ""
        print(f"podsim: {self.title}{amount}{left} …", file=sys.stderr, flush=True)


_PAUSE = 5.0
"""s between two lines where no terminal shows the current activity"""
_said = [0.0]


def _seldom(text: str) -> None:
    """Say the current activity on standard error, a line now and then."""
    if not _said[0]:
        _said[0] = time.monotonic()
    if time.monotonic() - _said[0] > _PAUSE:
        _said[0] = time.monotonic()
        sys.stderr.write(f"podsim: {visible(text)}\n")


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """Give a function that shows the current activity."""
    if not sys.stderr.isatty():
        yield _seldom
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as line:
        yield lambda text: line.update(Text(visible(text)))
