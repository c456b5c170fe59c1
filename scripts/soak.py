"""A long run that tries to break podsim: mutated files, random commands, random plans, kills; the same for the same seed.

python scripts/soak.py [PART ...] [--count N] [--seed N] [--minutes N]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "made")]

PARTS = {"readers": 100_000, "commands": 5_000, "processes": 300, "plans": 100_000, "kills": 300}
"""tries of each part; its tries are `tries(seed, count)` of tests/made/soak_PART.py"""
_SHOWN = 20
"""failures that are printed in full"""


def failures_of(part: str, seed: int, count: int, until: float) -> tuple[int, list[str]]:
    """Tries that were made before a time, and a sentence for each that failed."""
    tries: Iterator[str | None] = importlib.import_module(f"soak_{part}").tries(seed, count)
    failures: list[str] = []
    started = shown = time.monotonic()
    made = 0
    for made, failure in enumerate(tries, 1):
        if failure:
            failures.append(failure)
            if len(failures) <= _SHOWN:
                print(f"\r{part}: {failure}")
        now = time.monotonic()
        if now - shown > 1:
            shown = now
            print(
                f"\r{part}: {made:,} of {count:,}, {len(failures)} failed, {now - started:.0f} s",
                end="",
                flush=True,
            )
        if now > until:
            break
    print(
        f"\r{part}: {made:,} tries, seed {seed}, {len(failures)} failed, {time.monotonic() - started:.0f} s"
    )
    for kind, times in Counter(failure.partition(":")[0] for failure in failures).most_common():
        print(f"    {times:,} x {kind}")
    return made, failures


def main() -> int:
    """1 if a try failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all of them if none is given"
    )
    parser.add_argument("--count", type=int, help="tries of each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="the most that a part takes")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - PARTS.keys():
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    failed = 0
    for part in asked.parts or PARTS:
        until = time.monotonic() + 60 * asked.minutes
        failed += len(failures_of(part, asked.seed, asked.count or PARTS[part], until)[1])
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
