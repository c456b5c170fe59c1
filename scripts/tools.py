"""Parse what podsim writes for every tool with the tool's own code, in an environment of their packages.

    python scripts/tools.py FOLDER [--plans 200] [--record]

FOLDER gets a virtual environment, the packages that pip cannot install side by side, and the files of random plans.
Packages that only run on GPUs (transformer_engine and others) are replaced by empty stand-ins. `--record` writes the
keys that each tool knows to tests/launching/tool_keys.json, which the tests hold all files against.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"
PACKAGES = (
    "numpy", "pyyaml", "megatron-core", "accelerate", "torchtitan>=0.3", "tyro", "triton", "torchao", "omegaconf", "peft",
    "transformers", "datasets", "kubeflow-training", "kubernetes", "jax", "flax", "sentencepiece", "hjson", "py-cpuinfo",
    "msgpack", "ninja", "einops", "trl",
)  # fmt: skip
ALONE = ("axolotl", "megatron-bridge", "deepspeed")
"""packages without what they require: it needs GPUs, or older releases"""
UNPACKED = {"torchtitan-0.2": "torchtitan==0.2.2", "maxtext": "maxtext"}
"""packages that are unpacked next to the environment, by folder"""


def main() -> int:
    """Install, write, parse; 1 if any file is refused."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    folder: Path = given.folder.resolve()
    python = install(folder)
    write_plans(folder / "plans", given.plans)
    record = ["--record", str(HERE.parent / "tests" / "launching" / "tool_keys.json")] if given.record else []
    return subprocess.run([python, HERE / "tool_parsers.py", folder, *record], check=False).returncode


def install(folder: Path) -> Path:
    """The Python of the environment; what pip cannot install is named, and its files are not parsed."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [python, "-m", "pip", "-q"]
    for package in PACKAGES:
        _run([*pip, "install", TORCH, package], package)
    for package in ALONE:
        _run([*pip, "install", "--no-deps", "--no-build-isolation", package], package)
    for name, package in UNPACKED.items():
        wheels = folder / "wheels" / name
        _run([*pip, "download", "--no-deps", "--ignore-requires-python", "-d", wheels, package], package)
        for wheel in wheels.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(folder / name)
    return python


def _run(command: list[object], package: str) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{package}: does not install here: {done.stderr.strip().splitlines()[-1][:120]}")


def write_plans(folder: Path, count: int) -> None:
    """The files of random plans, a folder a tool."""
    sys.path.insert(0, str(HERE.parent / "tests" / "made"))
    from made_launches import TOOLS, written

    for name, tool in TOOLS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, (_, text) in enumerate(written(name, count)):
            (folder / name / f"{number}-{tool.file}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
