"""A peer in an environment of its own, and podsim's clock."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def about(peer: str, **values: Any) -> str:
    """What the report says of a peer, with the head of its table."""
    return tomllib.loads((HERE / "about.toml").read_text("utf-8"))[peer].format(**values)


def run(*words: str | Path, **options: Any) -> str:
    """What a command prints. Raises CalledProcessError with what it said if it fails."""
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


def installed(work: Path, package: str) -> tuple[Path, str]:
    """(the Python of an environment that has the package, its version)."""
    python = work / package / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", work / package)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package)
    return python, run(python, "-c", f"import importlib.metadata as m; print(m.version({package!r}))").strip()


def ask(python: Path, script: str, given: Any) -> Any:
    """The answer, the last line in JSON, of a script of this folder that reads JSON."""
    return json.loads(run(python, HERE / script, input=json.dumps(given)).splitlines()[-1])


def seconds_of(call: Callable[..., Any], *given: Any) -> float:
    """s. The median processor time of five calls, after one to warm up."""
    times = []
    for _ in range(6):
        started = time.process_time()
        call(*given)
        times.append(time.process_time() - started)
    return statistics.median(times[1:])
