"""Makes the files of a release: python scripts/release_files.py FOLDER

Builds the source distribution and the wheel twice, as different people would: other folders, other permissions, another
day. The files must be the same bytes, and pass `twine check --strict`. A wheel with the C library must be tagged with its
platform, and one without it must not. Next to them stands podsim.cdx.json: a CycloneDX list of what a fresh installation
of the wheel holds. Needs `pip install podsim[release]`. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BILL = "podsim.cdx.json"
BILL_COMMAND = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")


def build(source: Path, out: Path, mask: int) -> list[Path]:
    """The source distribution and the wheel that are built from a folder, under a umask."""
    before = os.umask(mask)
    try:
        _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source])
    finally:
        os.umask(before)
    return sorted(out.iterdir())


def copy(target: Path, mode: int) -> Path:
    """The files of the repository in another folder, with other permissions and times."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, path)
        path.chmod(mode | ((ROOT / name).stat().st_mode & 0o100))
        os.utime(path, (time.time() - 1e6, time.time() - mode * 1e4))
    return target


def wheel_problems(wheel: Path) -> list[str]:
    """What is wrong with the tag of a wheel: with a library it is for a platform, without one for any."""
    with zipfile.ZipFile(wheel) as archive:
        has_library = any(Path(name).name.startswith("_native-") for name in archive.namelist())
    is_any = wheel.stem.endswith("-none-any")
    return [f"{wheel.name} holds {'a' if has_library else 'no'} C library"] if has_library == is_any else []


def write_bill(wheel: Path, target: Path) -> None:
    """Write what a fresh environment with the wheel holds, as CycloneDX JSON; validated, and the same every time."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        _run([python, "-m", "pip", "install", "-q", wheel])
        _run([python, "-m", "pip", "uninstall", "-q", "-y", "setuptools", "pip"])
        _run([*BILL_COMMAND, "--validate", "--pyproject", ROOT / "pyproject.toml", "-o", target, python])


def bill_problems(bill: str) -> list[str]:
    """The run-time dependencies that a bill of materials lacks, a sentence each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.match(r"[\w.-]+", text)[0] for text in project["dependencies"]}  # type: ignore[index]
    listed = {part["name"].lower() for part in json.loads(bill)["components"]}
    return [f"the bill lacks {name}" for name in sorted(needed - listed)]


def _run(command: list[str | Path]) -> None:
    subprocess.run(command, check=True)


def main() -> int:
    """1 if two builds differ, or a file is not as an index wants it."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as aside:
        sources = copy(Path(aside, "a"), 0o644), copy(Path(aside, "elsewhere", "b"), 0o600)
        first, second = build(sources[0], out, 0o022), build(sources[1], Path(aside, "again"), 0o077)
        wrong = [f"{one.name} differs from a second build" for one, other in zip(first, second, strict=True)
                 if (one.name, one.read_bytes()) != (other.name, other.read_bytes())]  # fmt: skip
    wheel = next(path for path in first if path.suffix == ".whl")
    wrong += wheel_problems(wheel)
    _run([sys.executable, "-m", "twine", "check", "--strict", *first])
    write_bill(wheel, out / BILL)
    wrong += bill_problems((out / BILL).read_text("utf-8"))
    print(
        "\n".join(wrong) or f"{', '.join(path.name for path in first)}: twice the same bytes; {BILL} written"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
