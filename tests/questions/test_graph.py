"""`podsim capture`, `podsim graph`, `podsim chakra` from the terminal: what they print, and every class of mistake."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
MODULES = Path(__file__).parents[2] / "examples" / "modules"
GRAPH = MODULES / "resnet50.json"
GPU = ("--on", "a100-sxm4-80gb")


def refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert len(result.stderr) < 3000
    for word in words:
        assert word in result.stderr


def test_graph_prints_a_step(podsim: Run) -> None:
    text = podsim("graph", GRAPH, *GPU, "--devices", 4).stdout
    assert "samples/s" in text
    assert "Cut over 4 devices" in text
    assert "--detail ops shows all" in text
    every = podsim("graph", GRAPH, *GPU, "--detail", "ops").stdout
    assert every.count("conv2d") == 53


def test_graph_as_numbers(podsim: Run) -> None:
    one = json.loads(
        podsim("graph", GRAPH, "--on", "dgx-a100-80gb:2", "--gpus", 16, "--devices", 2, "--json").stdout
    )
    assert one["parameters"] == 25_557_032
    assert one["step_time"] == pytest.approx(
        one["forward"] + one["backward"] + one["update"] + one["host_step"]
    )
    assert sum(part["seconds"] for part in one["cut"]["parts"]) == pytest.approx(sum(one["kinds"].values()))
    assert {op["part"] for op in one["ops"]} == {0, 1}
    assert one["data_parallel"]["step_time"] >= one["step_time"]
    assert one["data_parallel"]["bytes"] == 4 * one["parameters"]
    lines = podsim("graph", GRAPH, *GPU, "--csv").stdout.splitlines()
    assert len(lines) == 228
    assert lines[0].startswith("name,op,kind,shape,flops")


def test_a_what_if(podsim: Run) -> None:
    plain, fast = (
        json.loads(podsim("graph", GRAPH, *GPU, *more, "--json").stdout)["step_time"]
        for more in ((), ("--set", "gpu.memory_bandwidth=3TB/s"))
    )
    assert fast < plain


def test_graph_to_chakra_and_back(podsim: Run, tmp_path: Path) -> None:
    made = podsim(
        "graph", GRAPH, "--on", "dgx-a100-80gb:1", "--gpus", 2, "--chakra", tmp_path / "step", "--json"
    )
    step = json.loads(made.stdout)
    files = [tmp_path / f"step.{rank}.et" for rank in (0, 1)]
    found = json.loads(podsim("chakra", *files, "--out", tmp_path / "again", "--json").stdout)
    one = found["files"][0]
    assert (one["version"], one["rank"], one["nodes"]) == ("0.0.4", 0, 2 * 227 + 5 + 1)
    assert one["collectives"] == {"all_reduce": 5}
    assert one["flops"] == step["flops"] + step["flops_back"]
    assert all(one[key] == 0 for key in ("dangling", "doubled", "ignored", "cyclic", "ordered"))
    assert (tmp_path / "again.0.et").read_bytes() == files[0].read_bytes()
    text = podsim("chakra", files[0]).stdout
    assert re.search(r"\b460\b", text)
    assert "left" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((GRAPH, "--on", "a1000"), ("unknown",)),
        ((GRAPH, *GPU, "--gpus", 9), ("8 or 16 would work",)),
        ((GRAPH, "--on", "dgx-a100-80gb:1", "--gpus", 9), ("has 8",)),
        ((GRAPH, *GPU, "--gpus", 0), ("1 or more",)),
        ((GRAPH, *GPU, "--devices", 1000), ("over 1 to 227",)),
        ((GRAPH, *GPU, "--devices", 2, "--tolerance", -1), ("tolerance=-1",)),
        ((GRAPH, *GPU, "--precision", "fp8"), ("has no fp8",)),
        ((GRAPH, *GPU, "--optimizer", "adamw"), ("did you mean adam",)),
        ((GRAPH, *GPU, "--fuse", "chain"), ("did you mean chains",)),
        ((GRAPH, *GPU, "--software", "nemo"), ("did you mean nemo-",)),
        ((GRAPH, *GPU, "--detail", "op"), ("may be ops",)),
        ((GRAPH, *GPU, "--json", "--csv"), ("choose one",)),
        ((GRAPH, *GPU, "--input", "8x3"), ("are in the graph",)),
        ((GRAPH, *GPU, "--set", "network.bandwidth=1"), ("only gpu.",)),
        (("absent.json", *GPU), ("cannot be read",)),
        (("net.py", *GPU), ("net.py:FUNCTION",)),
        ((GRAPH, *GPU, "--chakra", "/proc/absent/step"), ("cannot be written",)),
    ],
)
def test_graph_refuses(podsim: Run, arguments: tuple[object, ...], words: tuple[str, ...]) -> None:
    refused(podsim("graph", *arguments), *words)


def test_chakra_refuses(podsim: Run, tmp_path: Path) -> None:
    (tmp_path / "x.et").write_bytes(b"\xff" * 30)
    refused(podsim("chakra", tmp_path / "x.et"), "is not a Chakra trace")
    refused(podsim("chakra", tmp_path / "absent.et"), "cannot be read")
    refused(podsim("chakra"), "TRACES")


def test_capture_without_torch(podsim: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    refused(podsim("capture", f"{MODULES / 'resnet50.py'}:training"), "pip install '.[lab]'")


@pytest.mark.torch
def test_capture_and_graph_of_a_file_of_ones_own(podsim: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "net.py"
    path.write_text(
        "from __future__ import annotations\nimport torch\nfrom dataclasses import dataclass\nfrom torch import nn\n"
        "@dataclass\nclass Size:\n    width: int = 128\nprint('said on the way')\n"
        "def build():\n    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)), torch.zeros(32, 64)\n"
        "def given():\n    return nn.Linear(4, 4)\n"
        "def breaks():\n    raise KeyError('x')\n"
    )
    one = json.loads(podsim("capture", f"{path}:build", "--out", tmp_path / "net.json", "--json").stdout)
    assert (one["ops"], one["parameters"], one["batch"]) == (3, 64 * 128 + 128 + 128 * 8 + 8, 32)
    assert one["flops"] == one["torch_flops"] == 2 * 32 * 128 * 72
    assert "PyTorch" not in " ".join(one["notes"])
    direct, stored = (
        json.loads(podsim("graph", file, *GPU, "--json").stdout)
        for file in (f"{path}:build", tmp_path / "net.json")
    )
    assert direct.pop("podsim")["units"] == stored.pop("podsim")["units"]
    assert direct == stored
    assert direct["host"] > 0.5 * direct["step_time"]
    assert re.search(r"ops +3\n|gemm +2\n +elementwise +1\n", podsim("capture", f"{path}:build").stdout)
    refused(podsim("capture", f"{path}:given"), "--input")
    refused(podsim("capture", f"{path}:given", "--input", "2x5"), "cannot be exported", "--input")
    refused(podsim("capture", f"{path}:breaks"), "KeyError")
    refused(podsim("capture", f"{path}:bild"), "did you mean build")
    refused(podsim("capture", path), "FILE.py:FUNCTION")
    refused(podsim("capture", f"{tmp_path / 'absent.py'}:build"), "cannot be read")
    refused(podsim("capture", f"{path}:build", "--out", tmp_path / "no" / "x.json"), "cannot be written")
    path.write_text("def build(:\n")
    refused(podsim("capture", f"{path}:build"), "SyntaxError")


@pytest.mark.torch
def test_a_graph_for_any_batch(podsim: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "net.py"
    path.write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Linear(64, 128), nn.ReLU())\n"
    )
    out = tmp_path / "net.json.gz"
    assert "parameters" in podsim("capture", f"{path}:build", "--input", "Bx64", "--out", out).stdout
    stored, direct = (
        json.loads(podsim("graph", *file, *GPU, "--batch", 512, "--json").stdout)
        for file in ((out,), (f"{path}:build", "--input", "Bx64"))
    )
    assert stored["batch"] == 512
    assert stored["step_time"] == direct["step_time"]
    assert stored["flops"] == 2 * 512 * 64 * 128
    refused(podsim("graph", out, *GPU), "--batch 32")
    refused(podsim("graph", f"{path}:build", "--input", "Bx64", *GPU), "--batch 32")
    refused(podsim("graph", f"{path}:build", "--input", "8x64", *GPU, "--batch", 8), "with B for the samples")
    refused(podsim("capture", f"{path}:build", "--input", "4xB"), "check --input")


def test_a_network_by_name(podsim: Run) -> None:
    named, stored = (
        json.loads(podsim("graph", *file, *GPU, "--json").stdout)
        for file in (("resnet50", "--batch", 256), (GRAPH,))
    )
    assert named["step_time"] == pytest.approx(stored["step_time"], rel=1e-12)
    assert "resnet50" in podsim("show", "networks").stdout
    assert "8.178 GFLOP" in podsim("show", "resnet50").stdout
    refused(podsim("graph", "resnet50", *GPU), "how many samples")
    refused(podsim("graph", "resnet50", "--batch", 0, *GPU), "whole number from 1")
    refused(podsim("graph", "resnet05", "--batch", 4, *GPU), "did you mean resnet50")
    refused(podsim("show", "resnet50", "--set", "gpu.clock=1"), "cannot be changed")
