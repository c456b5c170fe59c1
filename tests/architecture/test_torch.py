"""PyTorch is optional: it is loaded by name, by one module outside the lab, when a function of it is called."""

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
        if LOADS.search(path.read_text("utf-8")) and path.parts[len(SOURCE.parts)] != "lab"
    }
    assert found == {"workload/capture.py"}


def test_importing_capture_does_not_load_torch() -> None:
    code = "import sys, podsim.workload.capture, podsim.verbs.capture; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
