"""Writes podsim's table of losses and its own law: python -m reference.loss_rows [FILE] [--check].

FILE is the collected table of finished runs (columns role, source, dataset, params_total, params_nonembed, tokens,
loss, metric, batch_tokens, lr, ref, notes). Of several runs of one setting, size and length the best is kept, in a few
columns: the figures with their source, not whole files of others. Without FILE the shipped table is read, and only the
law is fitted. A setting is what losses are comparable within: recipe and way of counting of one source, its data and
validation set.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import podsim.learning.loss_catalog as laws
from podsim.learning.loss_catalog import OWN, law_text
from podsim.learning.loss_fit import fit_law
from podsim.learning.loss_runs import Runs

LAW = Path(laws.__file__).with_name("own_laws.json")
TABLE = LAW.with_name("losses.csv.gz")
COLUMNS = (
    "id", "role", "tables", "setting", "parameters", "counts", "tokens", "batch_tokens", "learning_rate", "loss",
    "confirmed", "source",
)  # fmt: skip
_PARTS = {
    "chinchilla_epoch": "losses-chinchilla", "porian": "losses-porian",
    "open_lm_overtrain": "losses-open-lm losses-four", "steplaw_dense": "losses-step-law losses-four",
    "misfitting": "losses-misfitting losses-four", "xlstm_llama": "losses-xlstm losses-four",
}  # fmt: skip
_OWN_PART = "losses-chinchilla"
"""the part whose calibrate rows podsim's own law is fitted to: the widest range of compute"""
_DRAWS = 40
_ONE_OF_EIGHT = "val_loss:c4_val/shard-{0000000..0000010}.tar"
"""the validation set that is kept of runs scored on eight: that of C4, as in misfitting"""


def setting(row: Mapping[str, str]) -> str:
    """What losses of a row may be compared with, in words."""
    context = re.search(r"context (\d+)", row["notes"])
    recipe = row["notes"].partition(";")[0] if "hparams=" in row["notes"] else ""
    parts = (
        row["dataset"], row["metric"].removeprefix("val_loss:"), recipe, f"context {context[1]}" if context else "",
    )  # fmt: skip
    return ", ".join(part for part in parts if part)


def table_rows(collected: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The rows of the shipped table."""
    best: dict[tuple[str, ...], dict[str, str]] = {}
    for row in collected:
        if row["source"] not in _PARTS or (
            row["metric"].startswith("val_loss:") and row["metric"] != _ONE_OF_EIGHT
        ):
            continue
        counts = "total" if row["params_total"] else "non-embedding"
        size = float(row["params_total"] or row["params_nonembed"])
        cells = {
            "role": row["role"], "tables": _PARTS[row["source"]], "setting": setting(row), "parameters": f"{size:.8g}",
            "counts": counts, "tokens": f"{float(row['tokens']):.8g}", "batch_tokens": row["batch_tokens"],
            "learning_rate": row["lr"], "loss": f"{float(row['loss']):.7g}", "confirmed": "yes", "source": row["ref"],
        }  # fmt: skip
        near = f"{np.log(size):.2f}", f"{np.log(float(row['tokens'])):.2f}"
        key = (cells["tables"], cells["setting"], cells["role"], *near)
        if cells["tables"] == _OWN_PART:  # digitised points, each of its own
            key = (*key, str(len(best)))
        if key not in best or float(cells["loss"]) < float(best[key]["loss"]):
            best[key] = cells
    return [{"id": f"LOSS-{number:04}", **cells} for number, cells in enumerate(best.values(), 1)]


def own_law(rows: Sequence[Mapping[str, str]]) -> str:
    """The JSON of podsim's own law."""
    used = [row for row in rows if row["tables"] == _OWN_PART and row["role"] == "calibrate"]
    values = {name: np.array([float(row[name]) for row in used]) for name in ("parameters", "tokens", "loss")}
    runs = Runs(**values)
    law = fit_law(runs.where(runs.is_sane).best(), name=OWN, bootstraps=_DRAWS)
    said = "Hoffmann et al. 2022, figure 4, digitised by Epoch AI (MassiveText, 32k tokens)"
    return law_text(replace(law, source=said))


def main() -> int:
    """Write the table and the law, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.file is not None:
        rows = table_rows(list(csv.DictReader(given.file.open(encoding="utf-8", newline=""))))
        out = io.StringIO(newline="")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        if not given.check:
            TABLE.write_bytes(gzip.compress(out.getvalue().encode(), mtime=0))
    else:
        text = gzip.decompress(TABLE.read_bytes()).decode()
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    law = own_law(rows)
    if given.check:
        return int(law != LAW.read_text("utf-8"))
    LAW.write_text(law, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
