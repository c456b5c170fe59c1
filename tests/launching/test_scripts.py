"""Launch scripts as bash runs them and as shellcheck reads them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

JOB = ("llama-3.1-8b", "--on", "h100", "--gpus", "16", "--tp", "2", "--sequence-parallel")
FRAMEWORKS = {"MEGATRON": ("--zero", "1"), "TORCHTITAN": ("--zero", "2", "--software", "torchtitan-2024")}
CASES = [
    (code, tool, image)
    for code in FRAMEWORKS
    for tool, image in (("slurm", ()), ("slurm", ("--image", "")), ("torchrun", ()), ("kubernetes", ()))
]


def _script(podsim: Callable[..., Result], code: str, tool: str, image: tuple[str, ...]) -> str:
    text = podsim("launch", *JOB, *FRAMEWORKS[code], "--for", tool, *image).stdout
    if tool != "kubernetes":
        return text
    replica = yaml.safe_load(text)["spec"]["pytorchReplicaSpecs"]["Worker"]
    container = replica["template"]["spec"]["containers"][0]
    assert container["command"] == ["bash", "-c"]
    return f"#!/bin/bash\n{container['args'][0]}"


@pytest.mark.parametrize(("code", "tool", "image"), CASES)
def test_a_script_says_which_variable_it_lacks_and_starts_nothing(
    podsim: Callable[..., Result], tmp_path: Path, code: str, tool: str, image: tuple[str, ...]
) -> None:
    script = tmp_path / "script.sh"
    script.write_text(_script(podsim, code, tool, image))
    for given, lacks in (({}, code), ({code: str(tmp_path)}, "DATA"), ({"DATA": "mock"}, code)):
        done = subprocess.run(
            ["bash", script],
            env={"PATH": "/usr/bin:/bin", **given},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert f"{lacks}: set {lacks} to " in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("data", ["mock", "/data/text_document"])
def test_data_are_mock_or_a_prefix(podsim: Callable[..., Result], tmp_path: Path, data: str) -> None:
    script = tmp_path / "run.sh"
    script.write_text(_script(podsim, "MEGATRON", "torchrun", ()))
    program = tmp_path / "torchrun"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n')
    program.chmod(0o755)
    around = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MEGATRON": str(tmp_path), "DATA": data}
    words = subprocess.run(
        ["bash", script], env=around, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert words[0] == str(tmp_path)
    assert f"{tmp_path}/pretrain_gpt.py" in words
    assert ("--mock-data" in words) == (data == "mock")
    assert (data in words) == (data != "mock")


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
@pytest.mark.parametrize(("code", "tool", "image"), CASES)
def test_shellcheck_has_no_remark(
    podsim: Callable[..., Result], tmp_path: Path, code: str, tool: str, image: tuple[str, ...]
) -> None:
    script = tmp_path / "script.sh"
    script.write_text(_script(podsim, code, tool, image))
    done = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("tool", ["torchtitan", "accelerate", "axolotl"])
def test_a_refused_plan_leads_to_a_command_that_writes_the_file(
    podsim: Callable[..., Result], tool: str
) -> None:
    refused = podsim(
        "launch", "llama-3.1-8b", "--on", "h100", "--gpus", "64", "--tp", "2", "--zero", "1", "--for", tool
    )
    assert refused.exit_code != 0
    proposed = refused.stderr.partition("try: podsim ")[2].split()
    assert proposed[0] == "launch"
    written = podsim(*proposed)
    assert written.exit_code == 0, written.stderr
    assert written.stdout
