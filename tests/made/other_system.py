"""Runs podsim as on another system: python other_system.py SYSTEM < commands. What only Unix has is taken away first.

Prints the modules that cannot be imported, then for each command its exit status and the end of what it said.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pkgutil
import signal
import sys
import sysconfig
from importlib.abc import MetaPathFinder
from typing import Any

UNIX_MODULES = frozenset({"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"})
UNIX_CALLS = {
    os: (
        "fork", "forkpty", "getuid", "geteuid", "getgid", "getpgid", "setpgid", "setsid", "killpg", "nice", "statvfs",
        "sched_getaffinity", "sched_setaffinity", "sysconf", "posix_fadvise", "uname", "O_DIRECT", "O_NOFOLLOW",
        "O_NONBLOCK", "O_CLOEXEC",
    ),
    signal: ("SIGKILL", "SIGALRM", "SIGHUP", "SIGUSR1", "setitimer", "alarm", "pthread_sigmask"),
}  # fmt: skip
EXTRAS = frozenset(
    {"dask", "distributed", "matplotlib", "mpi4py", "openpyxl", "pandas", "pyarrow", "scipy", "torch"}
)
"""what `pip install podsim` alone does not bring"""
MAC_HAS = frozenset({*UNIX_CALLS[os], *UNIX_CALLS[signal], *UNIX_MODULES}) - {
    "sched_getaffinity", "sched_setaffinity", "posix_fadvise", "O_DIRECT",
}  # fmt: skip
"""what of it macOS has"""
LOADED = (
    "asyncio", "click._termui_impl", "concurrent.futures.process", "ctypes.util", "multiprocessing.context",
    "numpy", "pydantic", "rich.console", "subprocess", "tempfile", "urllib.request", "uvicorn.server", "webbrowser",
)  # fmt: skip
"""libraries that look at the system when they are loaded: Linux's stay, for it is podsim that is tried"""


class _Missing(MetaPathFinder):
    """Says that some modules are not there."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class _Library(ctypes.CDLL):
    """A library as Windows loads it: the program itself is none."""

    def __init__(self, name: str, *rest: Any, **more: Any) -> None:
        if "/" not in name:  # a TypeError for None, as there
            raise FileNotFoundError(name)
        super().__init__(name, *rest, **more)


def become(system: str) -> None:
    """Take away what a system has not."""
    for name in LOADED:
        importlib.import_module(name)
    sysconfig.get_config_vars()
    kept = MAC_HAS if system == "darwin" else frozenset()
    gone = (UNIX_MODULES - kept) | EXTRAS
    for module in gone:
        sys.modules.pop(module, None)
    sys.meta_path.insert(0, _Missing(gone))
    for owner, names in UNIX_CALLS.items():
        for name in set(names) - kept:
            if hasattr(owner, name):
                delattr(owner, name)
    if system == "win32":
        ctypes.CDLL = _Library  # type: ignore[misc]
    sys.platform = system


def main() -> None:
    """Import all of podsim, then run the commands of standard input, a JSON list of lists."""
    commands = json.load(sys.stdin)
    become(sys.argv[1])
    import podsim

    lost = []
    for module in pkgutil.walk_packages(podsim.__path__, "podsim."):
        if module.name.startswith("podsim._native"):  # the C library, which is no module of Python
            continue
        try:
            importlib.import_module(module.name)
        except Exception as problem:
            lost.append(f"{module.name}: {problem!r}")
    from click.testing import CliRunner

    from podsim.cli import app

    said = []
    for command in commands:
        done = CliRunner().invoke(app, command)
        said.append([done.exit_code, done.stdout, done.stderr])
    json.dump({"lost": lost, "said": said}, sys.stdout)


if __name__ == "__main__":
    main()
