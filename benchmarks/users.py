"""What users wait for: whole commands and public functions, cold and warm, against their goals and against other code.

    python benchmarks/users.py                       prints the table of users.toml
    python benchmarks/users.py --write               also writes it to benchmarks/reports/users.md
    python benchmarks/users.py --against DIR         also times the sources in DIR/src, in alternation
    python benchmarks/users.py --only plan --slow    the rows that name "plan", slow ones too

Seconds are of the processor, user and system, of the command or call and its children: the least of the alternations. The
load is that of the machine when a row began, in processes that want a processor.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
REPORT = HERE / "reports" / "users.md"
NATIVE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "podsim" / "native"
"""Where a source checkout keeps its C core; cold runs need not compile it."""
JOBS = "id,submit,gpus,seconds\na,0,8,3600\nb,60,16,1800\nc,90,4,600\n"
TIMED = """
import sys, time
least = float("inf")
for _ in range({rounds}):
    started = time.process_time()
    {call}
    least = min(least, time.process_time() - started)
print(least / each)
"""


class Figures(NamedTuple):
    """The measurement of one row."""

    seconds: float
    """s. The processor time of the command, or of one call."""
    answered: float | None
    """s. The time until a command wrote its first line, by the clock on the wall; None for a call."""


def _environment(source: Path, row: dict[str, Any], folder: Path) -> dict[str, str]:
    """The environment of a child that runs these sources, in which a first or cold run finds no caches."""
    paths = [str(source), os.environ.get("PYTHONPATH", "")]
    changed = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    if row.get("first"):
        changed["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    if row.get("first") or row.get("cold"):
        changed["XDG_CACHE_HOME"] = str(folder)
    if row.get("cold") and NATIVE.is_dir():
        shutil.copytree(NATIVE, folder / "podsim" / "native")
    return {**os.environ, **changed, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _run_command(words: list[str], environment: dict[str, str]) -> Figures:
    """The figures of one command."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "podsim.cli", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    ) as child:
        assert child.stdout is not None
        first = child.stdout.read(1)
        answered = time.monotonic() - started
        text = first + child.stdout.read()
    if child.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(words)}: {text.decode(errors='replace')[-400:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Figures(
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        answered,
    )


def _run_call(row: dict[str, Any], environment: dict[str, str]) -> Figures:
    """The figures of one call of a function."""
    setup, call = row["python"]
    code = f"each = {row.get('each', 1)}\n{setup}\n" + TIMED.format(rounds=row["rounds"], call=call.strip())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise SystemExit(f"{row['what']}: {done.stderr[-600:]}")
    return Figures(float(done.stdout.split()[-1]), None)


def measure(row: dict[str, Any], source: Path) -> Figures:
    """The figures of a row with these sources."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder, "jobs.csv")
        jobs.write_text(JOBS)
        environment = _environment(source, row, Path(folder))
        if "command" in row:
            return _run_command(row["command"].format(jobs=jobs).split(), environment)
        return _run_call(row, environment)


def _text(seconds: float | None) -> str:
    """A time in words: 3.1 s, 0.62 ms."""
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def table(rows: list[dict[str, Any]], sources: list[Path], alternations: int) -> list[str]:
    """The lines of the table; each is printed as soon as it is known."""
    others = [source.parent.name for source in sources[1:]]
    lines = [
        f"| what | goal | measured | {''.join(f'{name} | ' for name in others)}first line after | load |",
        f"|---|---:|---:|{'---:|' * len(others)}---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    for row in rows:
        load = os.getloadavg()[0]
        if find_spec(row.get("needs", "os")) is None:
            cells = ["not installed", *["-"] * (len(others) + 1)]
        else:
            runs = [[measure(row, source) for source in sources] for _ in range(alternations)]
            least = [min(run[number].seconds for run in runs) for number in range(len(sources))]
            first = [run[0].answered for run in runs if run[0].answered is not None]
            cells = [*map(_text, least), _text(min(first, default=None))]
        lines.append(f"| {row['what']} | {_text(row.get('goal'))} | {' | '.join(cells)} | {load:.1f} |")
        print(lines[-1], flush=True)
    return lines


def _page(lines: list[str], command: str) -> str:
    """The report: where and how it was measured, and the table."""
    return "\n".join([
        "# What users wait for",
        "",
        "| | |",
        "|---|---|",
        f"| date | {time.strftime('%Y-%m-%d')} |",
        f"| machine | {os.cpu_count()} processors ({platform.machine()}), shared with other work: see the load |",
        f"| versions | Python {platform.python_version()}, numpy {version('numpy')} |",
        f"| command | `{command}` |",
        "",
        "Seconds are of the processor, the least of the alternations. A shared machine takes up to twice those of a",
        "quiet one: compare columns of one run. `first line after` is by the clock on the wall. Calculon has no release",
        "in the package index (the name there is another program), so it is not in the table. llm-analysis is measured",
        "where it is installed.",
        "",
        *lines,
        "",
    ])  # fmt: skip


def main() -> None:
    """Measure, print, and write the report if that is asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write benchmarks/reports/users.md")
    parser.add_argument(
        "--against", type=Path, action="append", default=[], help="sources to compare with, DIR/src"
    )
    parser.add_argument("--only", default="", help="rows whose text holds this")
    parser.add_argument("--slow", action="store_true", help="slow rows, too")
    parser.add_argument("--alternations", type=int, default=2, help="runs of each row")
    asked = parser.parse_args()
    rows = tomllib.loads((HERE / "users.toml").read_text("utf-8"))["row"]
    chosen = [row for row in rows if asked.only in row["what"] and (asked.slow or not row.get("slow"))]
    sources = [HERE.parent / "src", *(folder / "src" for folder in asked.against)]
    lines = table(chosen, sources, asked.alternations)
    if asked.write:
        REPORT.write_text(_page(lines, " ".join(["python", "benchmarks/users.py", *sys.argv[1:]])), "utf-8")


if __name__ == "__main__":
    main()
