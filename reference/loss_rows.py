"""Losses of finished runs in canonical columns; podsim's table of them and its own law.

    curated(rows)                                  canonical rows of scaling_loss.csv and its like
    python -m reference.loss_rows [FILE] [--check] writes the shipped table and the law

FILE is the collected table of finished runs (columns role, source, dataset, params_total, params_nonembed, tokens,
loss, metric, batch_tokens, lr, ref, notes). Of several runs of one setting, size and length the best is kept, in a few
columns: the figures with their source, not whole files of others. Without FILE the shipped table is read, and only the
law is fitted. A setting is what losses are comparable within: recipe and way of counting of one source, its data and
validation set.
"""

from __future__ import annotations

import argparse
import gzip
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
from reference.csv_rows import csv_text, each_row, read_csv

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


def curated(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The canonical rows of a table of losses, as many and in order; of runs that were tuned worse a reason."""
    made = each_row(rows, (*COLUMNS, "reason"), _cells)
    best: dict[tuple[str, ...], str] = {}
    for row in sorted((row for row in made if not row["reason"]), key=lambda row: float(row["loss"])):
        best.setdefault(_near(row), row["id"])
    for row in made:
        if not row["reason"] and not _is_digitised(row) and best[_near(row)] != row["id"]:
            row["reason"] = "another run of this setting, size and length reached a lower loss"
    return made


def _cells(row: Mapping[str, str]) -> dict[str, str]:
    """The canonical cells of a run; ValueError where a number is missing."""
    size = float(row["params_total"] or row["params_nonembed"])
    return {
        "setting": setting(row), "parameters": f"{size:.8g}",
        "counts": "total" if row["params_total"] else "non-embedding",
        "tokens": f"{float(row['tokens']):.8g}", "learning_rate": row["lr"], "loss": f"{float(row['loss']):.7g}",
        "confirmed": "yes", "source": row["ref"],
    }  # fmt: skip


def _near(row: Mapping[str, str]) -> tuple[str, ...]:
    """What runs of one setting, role, size and length share."""
    size, tokens = (f"{np.log(float(row[name])):.2f}" for name in ("parameters", "tokens"))
    return (row["source"].partition(":")[0], row["setting"], row["role"], size, tokens)


def _is_digitised(row: Mapping[str, str]) -> bool:
    """Whether the points of a row's source were read off a figure: no two of them are one run."""
    return "svg_extracted" in row["source"]


def table_rows(collected: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The rows of the shipped table: the best runs of the sources that have a part."""
    best: dict[tuple[str, ...], dict[str, str]] = {}
    for row, cells in zip(collected, curated(collected), strict=True):
        is_one_of_eight = row["metric"].startswith("val_loss:") and row["metric"] != _ONE_OF_EIGHT
        if row["source"] in _PARTS and not is_one_of_eight:
            key = (cells["id"],) if _is_digitised(cells) else _near(cells)
            kept = best.setdefault(key, cells)
            best[key] = kept if cells["reason"] else cells
            best[key]["tables"] = _PARTS[row["source"]]
    return [{**cells, "id": f"LOSS-{number:04}"} for number, cells in enumerate(best.values(), 1)]


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
        rows = table_rows(read_csv(given.file))
        if not given.check:
            TABLE.write_bytes(gzip.compress(csv_text(rows, COLUMNS).encode(), mtime=0))
    else:
        rows = read_csv(TABLE)
    law = own_law(rows)
    if given.check:
        return int(law != LAW.read_text("utf-8"))
    LAW.write_text(law, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
