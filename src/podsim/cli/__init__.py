"""The command line: the same questions as the library, for a terminal.

Every command is the Python function of the same name with the same options, from one declaration in `podsim.options`;
`podsim.cli.command_table` says which. Nothing heavy is imported before a command runs, so that `podsim --help` is quick.
Exit status: 0 yes, 1 no (does not fit, falls short), 2 misuse, 70 a bug of podsim, 130 interrupted with nothing to show.
"""

from __future__ import annotations

import os
import sys

from podsim.cli.application import make_application
from podsim.cli.command import bug_report

__all__ = ["app", "main"]


app = make_application()


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without these characters shows "?", not a traceback
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
    try:
        app()
    except SystemExit as end:
        if (
            end.code == 130
        ):  # Python would still end by the signal if that came while a dataclass was being made
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(130)
        raise
    except Exception as error:
        if os.environ.get("PODSIM_TRACEBACK"):
            raise
        sys.stderr.write(bug_report(error))
        raise SystemExit(70) from None
