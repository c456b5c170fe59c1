"""Fits the software entries of language models again, in file order: python scripts/fit_software.py [NAME ...].

Each fit is that of `podsim calibrate --software NAME`. Entries inherit from those above them, so each runs after those
are written. Rows and residuals are printed; texts of evidence are left to the reader.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

TRAINING = Path(__file__).parents[1] / "src/podsim/training"
CATALOG = TRAINING.parent / "hardware/catalog/systems.toml"
FIT = (
    "import sys; from podsim.accuracy.calibration import calibrate_software as fit;"
    "print(*fit([], sys.argv[1], []).texts.values())"
)


def fitted_names() -> list[str]:
    """The entries of software.toml with constants to fit, "NAME" or "NAME.PART", in file order."""
    names = []
    for name, entry in tomllib.loads((TRAINING / "software.toml").read_text("utf-8")).items():
        parts = {name: entry} | {
            f"{name}.{key}": part for key, part in entry.items() if isinstance(part, dict)
        }
        names += [part for part, table in parts.items() if table.get("fitted")]
    return names


def write_value(path: Path, table: str, name: str, value: str) -> None:
    """Replace a number of a table of a TOML file, or add it below the table's name."""
    text = path.read_text("utf-8")
    start = text.index(f"[{table}]\n") + len(table) + 3
    stop = text.find("\n[", start)
    stop = len(text) if stop < 0 else stop
    line = f"{name} = {value}"
    body, count = re.subn(rf"(?m)^{name} = [^#\n]*?(?=\s*(#.*)?$)", line, text[start:stop])
    path.write_text(text[:start] + (body if count else f"{line}\n{body}") + text[stop:], "utf-8")


def main() -> None:
    """Fit the named entries, or all."""
    for name in sys.argv[1:] or fitted_names():
        out = subprocess.run([sys.executable, "-c", FIT, name], capture_output=True, text=True, check=True)
        print(out.stdout, flush=True)
        for line in out.stdout.splitlines():
            if match := re.fullmatch(r"# systems.toml, \[(.+)\]: (\w+) = (\S+)", line):
                write_value(CATALOG, *match.groups())
            elif match := re.fullmatch(r"\s*(\w+) = ([\d.e+-]+)", line):
                write_value(TRAINING / "software.toml", name, *match.groups())


if __name__ == "__main__":
    main()
