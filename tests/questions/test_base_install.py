"""`podsim validate` where only the packages of the base install can be imported."""

from __future__ import annotations

import json
import subprocess
import sys

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"scipy", "pandas", "matplotlib", "torch", "pyarrow", "transformers", "starlette"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from podsim.cli import main
main()
"""


def validate(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED, "validate", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_validate_ends_and_names_what_its_rows_need() -> None:
    done = validate("--table", "losses-step-law", "--table", "korthikanti")
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.splitlines()[-1]
        == "losses-step-law: 17 rows are not predicted; pip install '.[calibrate]'"
    )
    assert "KORT-0009" in done.stdout
    assert not done.stderr


def test_every_row_that_needs_an_extra_says_so() -> None:
    comparison = json.loads(validate("--table", "losses-step-law", "--json").stdout)["comparisons"][0]
    reasons = [row["reason"] for row in comparison["rows"]]
    assert sum("pip install '.[calibrate]'" in reason for reason in reasons) == 17
    assert all(reasons)
