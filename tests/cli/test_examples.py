"""Every example that is printed runs where only the packages of the base install can be imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from podsim.cli.application import OWN
from podsim.questions.registry import commands

ROOT = Path(__file__).parents[2]
EXTRA = (
    "matplotlib",
    "scipy",
    "torch",
    "pandas",
    "pyarrow",
    "PIL",
    "safetensors",
    "fsspec",
    "starlette",
    "uvicorn",
)
EXTRA_OF = {
    "capture": "lab", "scale fit": "calibrate", "scale ladder": "lab", "scale sharpness": "lab", "train": "lab",
    "calibrate": "calibrate",
    "measure collective": "lab", "measure ranks": "lab", "measure ddp": "lab", "measure host": "lab",
    "measure checkpoint": "lab", "measure serving": "lab", "measure tables": "lab", "measure loader": "lab", "web": "web",
    "measure transfer": "lab",
}  # fmt: skip
"""commands that need an extra, which they name"""
ELSEWHERE = {"diagnose": "Connection refused", "compare": "no such file", "emulate": ""}
"""commands that ask another machine, a measured run, or what this machine is and may"""
SLOW = ("validate", "verify --expect dgx-h100")
"""examples that take many seconds; tests/accuracy and tests/acceptance run what they do"""
FIRST = (
    "plan gpt2 --on h100 --gpus 8 --top 1 --save kept",
    "simulate gpt2 --on dgx-a100:2 --dp 16 --batch 16 --save step.jsonl",
    "simulate gpt2 --on h100 --gpus 2 --dp 2 --batch 2 --chakra trace",
)
"""what writes the files that examples name"""
RUNNER = """
import json, shlex, sys
from pathlib import Path
blocked, lines = json.load(sys.stdin)
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from click.testing import CliRunner
from podsim.cli import app
ends = {}
for line in lines:
    result = CliRunner().invoke(app, shlex.split(line.partition(" > ")[0]), env={"COLUMNS": "80"})
    ends[line] = result.exit_code, result.stderr
Path("ends.json").write_text(json.dumps(ends))
"""
FILES = {
    "designs.toml": '[common]\nmodel = "gpt2"\ntokens = "1G"\n[[design]]\non = "h100"\ngpus = 8\n',
    "nvidia-smi.txt": "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n",
    "mig-parted.yaml": (
        "version: v1\nmig-configs:\n  a:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {1g.10gb: 7}\n"
    ),
    "net.py": "def build():\n    pass\n",
    "runs.csv": "parameters,tokens,loss\n" + "".join(f"{k}e7,{k * k}e9,{4 - k / 10}\n" for k in range(1, 10)),
}


def safetensors() -> bytes:
    """A file with one tensor of 64 x 128 numbers."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [64, 128], "data_offsets": [0, 32768]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"\0\0\x80?" * 8192  # ones


def proposed() -> list[str]:
    """The command lines that podsim proposes where one of these cannot be read."""
    lines = (Path(__file__).with_name("first_commands.txt")).read_text("utf-8").splitlines()
    return sorted({right for line in lines if line[:1] != "#" and (right := line.partition("=>")[2].strip())})


def readme_commands() -> list[str]:
    """The commands that the README shows: with a prompt, or at the end of its set-up."""
    text = (ROOT / "README.md").read_text("utf-8")
    return re.findall(r"^    (?:\$ |.*/bin/)podsim (.+)$", text, re.MULTILINE)


def run(lines: list[str], folder: Path) -> dict[str, Any]:
    """(exit status, standard error) by command line, all in one process without the extras."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", RUNNER], input=json.dumps([EXTRA, lines]), capture_output=True, text=True,
        check=False, cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ends: dict[str, Any] = json.loads((folder / "ends.json").read_text("utf-8"))
    return ends


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "checkpoints").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    (folder / "model.safetensors").write_bytes(safetensors())
    return run([*FIRST, *examples().values(), *OWN.values(), *readme_commands(), *proposed()], folder)


@cache
def examples() -> dict[str, str]:
    """The example of each command; those of seconds only with PODSIM_LONG=1."""
    return {
        name: entry.example
        for name, entry in commands().items()
        if entry.example not in SLOW or os.environ.get("PODSIM_LONG")
    }


@pytest.mark.parametrize("name", [name for name in examples() if name not in (*EXTRA_OF, *ELSEWHERE)])
def test_an_example_is_answered(ends: dict[str, Any], name: str) -> None:
    status, stderr = ends[examples()[name]]
    assert status == (name == "storage fail"), stderr


@pytest.mark.parametrize("name", EXTRA_OF)
def test_another_says_which_extra_it_needs(ends: dict[str, Any], name: str) -> None:
    status, stderr = ends[examples()[name]]
    assert status == 2
    assert f"pip install '.[{EXTRA_OF[name]}]'" in " ".join(stderr.split())


@pytest.mark.parametrize("command", [*FIRST, *OWN.values(), *readme_commands()])
def test_a_command_of_the_readme_is_answered(ends: dict[str, Any], command: str) -> None:
    status, stderr = ends[command]
    assert status == 0, stderr


@pytest.mark.parametrize("command", proposed())
def test_a_proposed_command_is_answered(ends: dict[str, Any], command: str) -> None:
    status, stderr = ends[command]
    assert status in (0, 1), stderr


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_asks_elsewhere_ends_without_a_bug(ends: dict[str, Any], name: str) -> None:
    status, stderr = ends[examples()[name]]
    assert status in (0, 1, 2)
    assert ELSEWHERE[name] in stderr
