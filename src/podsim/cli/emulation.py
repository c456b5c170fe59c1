"""`podsim emulate`: a command of podsim that it is given runs in the ranks' processes as they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from podsim.cli import app
from podsim.lab.emulated_links import emulated_cluster, warnings_of
from podsim.questions.operate.emulate import emulate


def emulated_status(options: Mapping[str, Any], output: object) -> int:
    """The exit status of the command; what this machine will not keep up with is said before."""
    links = {name: options[name] for name in ("cluster", "scale", "per", "overrides")}
    for warning in warnings_of(emulated_cluster(**links)):
        sys.stderr.write(f"podsim: {warning}\n")
    return int(emulate(**options, own=_run_here))


def _run_here(words: Sequence[str]) -> int:
    """The exit status of a command of podsim, run in this process."""
    try:
        app(args=list(words[1:]), prog_name="podsim")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
