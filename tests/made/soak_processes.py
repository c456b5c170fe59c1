"""Random command lines as processes, with standard input closed, and with full, closed and broken standard output."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from random_commands import ROOT, random_command, write_files
from soak_commands import WAIT, told, wrong_end

OUTPUTS = ("exec", "exec", "exec", ">/dev/full exec", ">&- exec", "| head -c 1")
"""where standard output goes: to be read, mostly; to a full disk, nowhere, to a reader that ends"""


def tries(seed: int, count: int) -> Iterator[str | None]:
    """A sentence for each command that failed, None for the others."""
    for number in range(count):
        rng = Random(f"{seed}/processes/{number}")
        words = [word.replace("\0", "") for word in random_command(rng)]
        yield failure(words, rng.choice(OUTPUTS))


def failure(words: Sequence[str], output: str = "exec") -> str | None:
    """What is wrong with how a command ends, run in a new folder; None if nothing is."""
    script = f'{output} "$@"' if "exec" in output else f'set -o pipefail; "$@" {output}'
    command = ["bash", "-c", script, "bash", sys.executable, "-m", "podsim.cli", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}
    with tempfile.TemporaryDirectory(prefix="podsim-soak-") as folder:
        write_files(Path(folder))
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return told(words, f"no end within {WAIT} s ({output})")
    printed, problems = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    if output != "exec" and done.returncode in (0, 1, 2) and not problems:
        return None  # the words went where nobody reads
    return wrong_end([*words, f"({output})"], done.returncode, printed, problems)
