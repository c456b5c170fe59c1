"""A reader of mdtest's output: operations per second, by operation.

Releases differ in the title ("SUMMARY rate:", "SUMMARY rate (in ops/sec):") and in a colon after the name; all have
the columns Max, Min, Mean and Std Dev. Format: github.com/hpc/ior, src/mdtest.c.
"""

from __future__ import annotations

import re
from pathlib import Path

from podsim.errors import TableError
from podsim.foreign_files import read_text

_LINE = re.compile(
    r"\s*((?:Directory|File|Tree) (?:creation|stat|rename|read|removal))\s*:?\s+"
    r"([\d.]+)\s+([\d.]+)\s+(\d{1,18}(?:\.\d{1,18})?)\s+([\d.]+)(?:\s|$)"
)
_TASKS = re.compile(r"launched with (\d{1,9}) total task|^(\d{1,9}) tasks, ", re.MULTILINE)
OPERATIONS = ("File creation", "File stat", "File removal")
"""what is held against a prediction"""
_LIMIT = 16_000_000
_LONGEST_LINE = 500
"""characters of a line"""


def read_mdtest(path: str | Path) -> tuple[dict[str, float], int]:
    """(operations a second by mdtest's names, tasks) of a file. TableError for one that is not mdtest's."""
    path = Path(path)
    return mdtest_rates(read_text(path, most=_LIMIT, error=TableError, is_lenient=True), path.name)


def mdtest_rates(text: str, name: str = "mdtest") -> tuple[dict[str, float], int]:
    """The same of text: means over the iterations. A summary that comes later in the text replaces one before."""
    _, title, summary = text.rpartition("SUMMARY rate")
    lines = summary.splitlines() if title else ()
    matches = (_LINE.match(line) for line in lines if len(line) < _LONGEST_LINE)
    rates = {match[1]: float(match[4]) for match in matches if match}
    if not rates:
        raise TableError(f"{name}: no line of a 'SUMMARY rate' in it; expected what mdtest prints")
    tasks = _TASKS.search(text)
    return rates, int(tasks[1] or tasks[2]) if tasks else 1
