"""Tests podsim with the lowest versions that pyproject.toml allows: python scripts/lowest.py FOLDER [TEST ...]

A new environment in FOLDER gets the lowest version of every run-time dependency and of those of EXTRAS, and the newest of
what these need. Needs uv. The exit status is that of pytest. Recorded predictions must be the same to 1e-9 (golden).
Warnings are no errors here: old libraries use what newer ones of others have deprecated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("report", "calibrate", "web", "study", "dask")
TESTS = ("golden", "training", "network", "kernels", "cli", "report", "studies", "web", "options", "workload")
"""the folders of tests that use all of these libraries"""
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "httpx", "jsonschema", "prometheus-client")


def main() -> int:
    """The exit status of the tests, or of the first step that failed."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    python, pins = folder / "bin" / "python", folder / "lowest.txt"
    wanted = [word for extra in EXTRAS for word in ("--extra", extra)]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    tests = sys.argv[2:] or [str(ROOT / "tests" / name) for name in TESTS]
    steps: list[list[str | Path]] = [
        ["uv", "venv", "-q", "--clear", "--python", sys.executable, folder],
        ["uv", "pip", "compile", "-q", "--no-header", "--no-annotate", "--resolution", "lowest-direct",
         "--python-version", version, *wanted, ROOT / "pyproject.toml", "-o", pins],
        ["uv", "pip", "install", "-q", "--python", python, "-r", pins, *TOOLS],
        ["uv", "pip", "install", "-q", "--python", python, "--no-deps", ROOT],
        [python, "-m", "pytest", "-n", "auto", "-W", "default", "-m", "quick and not torch and not browser", *tests],
    ]  # fmt: skip
    for step in steps:
        print("+", *step, flush=True)
        if status := subprocess.run(step, cwd=ROOT, env=os.environ, check=False).returncode:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
