"""PyTorch is optional: three modules load it, by name, when a function of theirs is called."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "podsim"
LOADS = re.compile(r"^\s*(?:import torch\b|from torch\b)|import_module\(\s*[\"']torch\b", re.MULTILINE)


def test_only_capture_and_the_lab_load_torch() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if LOADS.search(path.read_text("utf-8"))
    }
    assert found == {"graphs/capturing.py", "lab/wires.py", "workload/transformers_class.py"}


def test_importing_them_does_not_load_torch() -> None:
    paths = [path.relative_to(SOURCE.parent).with_suffix("") for path in (SOURCE / "lab").rglob("*.py")]
    lab = sorted(".".join(path.parts) for path in paths if path.name != "__init__")
    names = [
        "podsim.graphs.capturing",
        *(
            f"podsim.questions.{name}"
            for name in (
                "train.capture",
                "operate.compare",
                "operate.measure",
                "operate.measure_checkpoint",
                "operate.measure_ddp",
                "operate.measure_loader",
                "learn.train",
            )
        ),
        *lab,
    ]
    code = f"import sys, {', '.join(names)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
