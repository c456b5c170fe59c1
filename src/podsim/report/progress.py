"""A progress bar that appears only when work takes more than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(title: str, *, after: float = 1.0) -> Iterator[Callable[[int, int], None]]:
    """Give a function of (done, all) that draws a bar on standard error once `after` seconds have passed."""
    started = time.monotonic()
    shown = last = 0.0

    def update(done: int, whole: int) -> None:
        nonlocal shown, last
        now = time.monotonic()
        if now - started < after or now - last < 0.1:
            return
        last = shown = now
        share = done / max(whole, 1)
        filled = round(30 * share)
        sys.stderr.write(f"\r{title} [{'#' * filled}{'.' * (30 - filled)}] {share:4.0%} of {whole:,}")
        sys.stderr.flush()

    try:
        yield update if sys.stderr.isatty() else (lambda done, whole: None)
    finally:
        if shown:
            sys.stderr.write("\r" + " " * 78 + "\r")


@contextmanager
def doing() -> Iterator[Callable[[str], None]]:
    """Give a function that says on one line of a terminal's standard error what is under way."""

    def say(text: str) -> None:
        sys.stderr.write(f"\r\033[K{text[:78]}")
        sys.stderr.flush()

    if not sys.stderr.isatty():
        yield lambda text: None
        return
    try:
        yield say
    finally:
        say("")
