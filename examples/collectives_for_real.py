"""Tables of collectives run for real on four ranks of this machine, and checked against a sum in float64.

What is printed does not depend on how fast the machine is. Needs PyTorch: pip install podsim[lab].
"""

from __future__ import annotations

import podsim

if __name__ == "__main__":
    print(f"{'collective':14}  {'algorithm':24}  {'size':>8}  messages  wrong")
    for collective in ("all-reduce", "all-gather", "all-to-all"):
        run = podsim.measure_collective(collective, ranks=4, local=2, sizes="1M:1M", iters=1)
        assert run is not None
        for row in run.rows:
            messages = row.messages or "its own"
            wrong = row.wrong + (row.in_place_wrong or 0)
            print(f"{collective:14}  {row.algorithm:24}  {row.size:8.0f}  {messages!s:>8}  {wrong:5}")
