"""A field that is declared in one place is a field of plans, a keyword, an option, a limit and a column of a search."""

from __future__ import annotations

import subprocess
import sys

DECLARED = """
import importlib.util, sys
from pathlib import Path

spec = importlib.util.find_spec("podsim.options.plan_options")
text = Path(spec.origin).read_text("utf-8")
before = '    overlap_tp: Ints = option('
assert before in text
text = text.replace(before, '    fused_loss: Ints = option(False, "Fuse the loss.")\\n' + before)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
exec(compile(text, spec.origin, "exec"), module.__dict__)
"""
ASKED = """
import podsim
from click.testing import CliRunner
from podsim.cli import app

asked = {"on": "dgx-a100:1", "batch": 8}
one = podsim.predict("gpt2", fused_loss=True, **asked)
assert one.plan["fused_loss"] is True
assert one.step_time == podsim.predict("gpt2", **asked).step_time
limit = {"tp": 1, "pp": 1, "cp": 1, "micro_batch": 1}
once = podsim.plan("gpt2", limit={**limit, "fused_loss": "no"}, **asked)
twice = podsim.plan("gpt2", limit={**limit, "fused_loss": "no,yes"}, **asked)
assert twice.evaluated == 2 * once.evaluated
shown = CliRunner().invoke(app, ["help", "predict", "--all"]).stdout
assert "--fused-loss / --no-fused-loss" in shown
assert "Fuse the loss." in shown
assert "Fuse the loss." in podsim.predict.__doc__
"""


def test_a_new_field_is_declared_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DECLARED + ASKED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
