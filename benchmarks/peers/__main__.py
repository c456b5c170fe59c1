"""podsim beside other simulators and models, on the same inputs in the same run.

    PYTHONPATH=src:tests/made python benchmarks/peers --work DIR [--write] [--only simpy]

prints the report, and writes it to benchmarks/reports/peers.md if asked. Each peer is installed in DIR, apart from
podsim: packages of the Python index in an environment of their own, SimGrid from Debian's packages, unpacked there and
compiled against. A peer that cannot be had is named with the reason.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from networks import against_simgrid
from peer import about
from queues import against_accasim, against_simpy
from servers import against_aiconfigurator
from steps import against_llm_analysis

REPORT = Path(__file__).parents[1] / "reports" / "peers.md"
PEERS = {
    "simgrid": against_simgrid, "simpy": against_simpy, "accasim": against_accasim,
    "llm-analysis": against_llm_analysis, "aiconfigurator": against_aiconfigurator,
}  # fmt: skip


def main() -> None:
    """Install and compare the peers that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="the folder that peers are installed in")
    parser.add_argument("--write", action="store_true", help="write benchmarks/reports/peers.md")
    parser.add_argument("--only", choices=PEERS, help="compare with this peer only")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    head = about(
        "report", date=time.strftime("%Y-%m-%d"), processors=os.cpu_count(), machine=platform.machine(),
        python=platform.python_version(), numpy=version("numpy"),
    )  # fmt: skip
    parts = [head]
    for name in [asked.only] if asked.only else PEERS:
        try:
            parts.append(PEERS[name](asked.work.resolve()))
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            parts.append(f"## {name}\n\nCould not be had or run: {said.strip()[-400:]}\n")
        print(parts[-1], flush=True)
    if asked.write:
        REPORT.write_text("\n".join(parts), "utf-8")


main()
