"""Record what podsim predicts now: residuals behind the error bands, golden files, docs/accuracy.md.

    python scripts/record.py            # write them, and say what moved
    python scripts/record.py --check    # write nothing; exit status 1 if anything would change

Run it after a deliberate change of a law or a constant, read what it says, and commit the files with the change.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

os.environ.setdefault(
    "OPENBLAS_CORETYPE", "Haswell"
)  # as the tests do: the same last digits of a fit everywhere

from podsim.accuracy import bands, bands_networks, bars, held_out
from podsim.questions.operate.validate import accuracy_markdown, validate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from reference import golden, residuals  # noqa: E402 - the root is not on the path of a script

GOLDEN = ROOT / "tests" / "golden"
BANDS = Path(bands.__file__).parent


def main() -> int:
    """Write (or check) every recorded file; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if anything differs"
    )
    check = parser.parse_args().check
    first = {
        BANDS / held_out.FILE: held_out.packed_held_out(residuals.measure_held_out()),
        BANDS / bands.FILE: residuals.residuals_text(residuals.measure_residuals()).encode(),
    }
    changed = [path for path, content in first.items() if path.read_bytes() != content]
    _write({path: first[path] for path in changed}, check=check)
    if check and changed:
        return 1
    for cached in (held_out.held_out_seconds, bands.residuals):
        cached.cache_clear()
    found = validate()
    predictions, accuracy = golden.recorded_predictions(), golden.recorded_accuracy(found.comparisons)
    _say("predictions moved", golden.differences(_old("predictions.json"), predictions))
    _say("accuracy lost", golden.losses(_old("accuracy.json"), accuracy))
    texts = {
        BANDS / bands_networks.FILE: residuals.network_residuals_text(residuals.measure_network_residuals()),
        BANDS / bars.RECORD: bars.accuracy_text(accuracy),
        GOLDEN / "predictions.json": json.dumps(predictions, indent=0) + "\n",
        GOLDEN / "accuracy.json": json.dumps(accuracy, indent=1) + "\n",
        ROOT / "docs" / "accuracy.md": accuracy_markdown(found),
    }
    changed = [path for path, text in texts.items() if not path.is_file() or path.read_text("utf-8") != text]
    _write({path: texts[path].encode() for path in changed}, check=check)
    return 1 if check and changed else 0


def _write(contents: Mapping[Path, bytes], *, check: bool) -> None:
    """Write files, or only say which differ."""
    for path, content in contents.items():
        print(f"{'differs' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _old(name: str) -> dict[str, dict[str, object]]:
    path = GOLDEN / name
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _say(what: str, lines: list[str]) -> None:
    """Print the first lines, and how many there are."""
    print(f"{what}: {len(lines)}")
    for line in lines[:15]:
        print(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
