"""The command line: the same questions as the library, for a terminal.

Every command is the Python function of the same name with the same options, from one declaration in `podsim.options`;
`podsim.questions.registry` says which. Nothing heavy is imported before a command runs, so that `podsim --help` is quick.
Exit status: 0 yes, 1 no (does not fit, falls short), 2 misuse, 70 a bug of podsim, 130 interrupted with nothing to show.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

gc.set_threshold(100_000, 20, 20)  # what a command imports stays to its end: no search for garbage
try:
    from podsim.answers.answer import load
    from podsim.cli.application import make_application
except KeyboardInterrupt:
    raise SystemExit(130) from None

__all__ = ["app", "main"]


app = make_application()
_heard: list[int] = []
"""the signals that came"""


def main() -> None:
    """Run the command line."""
    _open_streams()
    threading.excepthook = lambda ended: _report(ended.exc_value)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without these characters shows "?", not a traceback
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
    _listen()
    try:
        app()
    except SystemExit as end:
        gc.freeze()  # nor when Python ends
        if end.code != 130 and not (_heard and end.code not in (0, 1)):
            with suppress(ValueError):  # only the main thread may; from here on nothing needs to be stopped
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            raise
    except KeyboardInterrupt:
        sys.stderr.write("\npodsim: interrupted\n")
    except Exception as error:
        if not _heard:  # an interrupted import may end as another error
            _report(error)
            raise SystemExit(70) from None
    atexit._run_exitfuncs()  # multiprocessing takes its folder away
    # Python would still end by the signal if that came while a dataclass was being made
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)


def _listen() -> None:
    """Let SIGTERM and SIGHUP end the command the way Ctrl-C does; what is ignored, as under nohup, stays so."""
    with suppress(ValueError):  # only the main thread may
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, signal.SIGINT)
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, _stop)
                sys.unraisablehook = _stop_again


def _stop(number: int, _frame: FrameType | None) -> None:
    _heard.append(number)
    raise KeyboardInterrupt


def _stop_again(lost: sys.UnraisableHookArgs) -> None:
    """Repeat an interrupt that came while Python deleted an object, where it ends nothing."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()


def _report(error: BaseException | None) -> None:
    """Say that an error is a bug."""
    if error is not None and not isinstance(error, SystemExit):
        sys.stderr.write(load("bugs:bug_report")(error))


def _open_streams() -> None:
    """Let streams that the caller closed lead nowhere: no file gets their numbers, and what is written to them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "w" if number else "r", closefd=False))
