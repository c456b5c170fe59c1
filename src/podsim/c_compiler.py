"""The C sources of the package as one shared library. Standard library only: the build hook runs this file too.

The library's name carries a hash of all sources, headers and flags: a library that does not fit them is never loaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-std=c11")
"""IEEE arithmetic in the order in which it is written, on any processor of the architecture"""
NO_COMPILER = (
    "podsim's simulations and queues run on a C library that this installation lacks, and no C compiler was there to "
    "build it (CC, cc, gcc, clang); install one, as apt-get install gcc, or pip install ziglang"
)


class CompileError(RuntimeError):
    """No compiler, or one that failed."""


def source_files(package: Path) -> list[Path]:
    """The C sources and headers of the package: next to its modules, and in packages up to two levels below."""
    folders = [package]
    for folder in [package, *_packages(package)]:
        folders += _packages(folder)
    return sorted(
        Path(entry) for folder in folders for entry in os.scandir(folder) if entry.name.endswith((".c", ".h"))
    )


def _packages(folder: Path) -> list[Path]:
    """The packages in a folder."""
    return [Path(entry) for entry in os.scandir(folder) if entry.is_dir()]


def library_name(package: Path) -> str:
    """The name of the library of these very sources on this kind of machine."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for path in source_files(package):
        digest.update(f"\n{path.relative_to(package).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    system = sysconfig.get_config_var("MULTIARCH") or sys.platform
    return f"_native-{system}-{platform.machine()}-{digest.hexdigest()[:16]}.so"


def compiler_commands() -> list[list[str]]:
    """The compilers at hand, best first: CC, cc, gcc, clang, then the one that `pip install ziglang` brings."""
    named = shlex.split(os.environ.get("CC", ""))
    commands = [named] if named and shutil.which(named[0]) else []
    commands += [[name] for name in ("cc", "gcc", "clang") if shutil.which(name)]
    if importlib.util.find_spec("ziglang"):
        commands.append([sys.executable, "-m", "ziglang", "cc"])
    return commands


def compile_library(package: Path, target: Path) -> None:
    """Write the library to `target`: aside first, then renamed, so that others see all of it or nothing.

    Raises CompileError, and OSError where `target` cannot be written.
    """
    sources = [str(path) for path in source_files(package) if path.suffix == ".c"]
    aside = target.with_name(f"{target.name}.{os.getpid()}")
    problems = []
    environment = {**os.environ, "TMPDIR": str(target.parent)}  # an ended compiler leaves its files there
    aside.touch()
    try:
        for compiler in compiler_commands():
            command = [*compiler, *FLAGS, "-I", str(package), "-o", str(aside), *sources, "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if done.returncode == 0:
                aside.replace(target)
                return
            problems.append(
                f"{' '.join(compiler)} cannot compile podsim's C sources: {done.stderr.strip()[:400]}"
            )
        raise CompileError(problems[0] if problems else NO_COMPILER)
    finally:
        aside.unlink(missing_ok=True)
