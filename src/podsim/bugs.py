"""Reports of internal errors: the error, where it was raised, and how to report it."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from traceback import extract_tb, format_exception

from podsim.quoting import visible
from podsim.version import __version__


def bug_line(error: BaseException) -> str:
    """One line: podsim's version, the error, and the line of podsim at which it began."""
    frames = [frame for frame in extract_tb(error.__traceback__) if "podsim" in Path(frame.filename).parts]
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    what = visible(" ".join(str(error).split())[:200])
    return f"a bug in podsim {__version__}: {type(error).__name__}: {what}{where}"


def bug_report(error: BaseException) -> str:
    """Two lines for standard error; under PODSIM_TRACEBACK=1 the traceback before them."""
    traced = "".join(format_exception(error)) if os.environ.get("PODSIM_TRACEBACK") == "1" else ""
    return (
        f"{traced}podsim: {bug_line(error)}\n"
        f"podsim: please report it{_place()} with the command and what it prints under PODSIM_TRACEBACK=1\n"
    )


def _place() -> str:
    """The project's page of issues, as the installation names it."""
    try:
        urls = metadata("podsim").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    pages = (url.partition(",") for url in urls)
    return next(
        (f" at {page.strip()}" for name, _, page in pages if name.lower() in ("issues", "bug tracker")), ""
    )
