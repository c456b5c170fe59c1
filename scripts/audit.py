"""Asks pip-audit for known holes in what is installed: python scripts/audit.py [PIP-AUDIT-OPTION ...]

The exit status is 1 for a hole, and for every answer that is none: a distribution that was skipped, one that the report
does not name, a report that cannot be read, a service that did not answer. Only podsim itself may be skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distributions

from packaging.utils import canonicalize_name

OWN = "podsim"


def problems(report: str, installed: Iterable[str]) -> list[str]:
    """What a report of pip-audit leaves open or says is wrong, a sentence each; none for a clean one."""
    try:
        entries = {canonicalize_name(entry["name"]): entry for entry in json.loads(report)["dependencies"]}
    except (ValueError, TypeError, KeyError):
        return [f"pip-audit gave no report: {report.strip()[:200] or 'nothing'}"]
    wrong = []
    for name in sorted({canonicalize_name(name) for name in installed} | entries.keys()):
        entry = entries.get(name, {})
        holes = entry.get("vulns")
        if holes:
            wrong.append(f"{name} {entry.get('version', '')}: {', '.join(hole['id'] for hole in holes)}")
        elif name != OWN and ("skip_reason" in entry or holes is None):
            wrong.append(f"{name} was not audited: {entry.get('skip_reason', 'the report has no answer')}")
    return wrong if entries else ["pip-audit audited nothing"]


def main() -> int:
    """1 unless everything that is installed was audited and is clean."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--format",
        "json",
        "--progress-spinner",
        "off",
        *sys.argv[1:],
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong = problems(done.stdout, (distribution.name for distribution in distributions()))
    if done.returncode and not wrong:
        wrong = [f"pip-audit ended with status {done.returncode}"]
    print(
        "\n".join(
            [*wrong, done.stderr.strip()[-2000:]] if wrong else ["everything was audited, and is clean"]
        )
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
