"""The measured training runs behind every band, each with what podsim predicts of it."""

from __future__ import annotations

from math import exp
from typing import Any

from podsim.accuracy.bands import residuals
from podsim.options.question import NoOptions, question


@question(NoOptions)
def measured_runs(options: NoOptions) -> dict[str, Any]:
    """A row for each run: measured and predicted utilisation, and the error of the predicted time, as shares."""
    rows = [
        {
            "id": run.id, "role": run.role, "source": run.source, "architecture": run.features.architecture,
            "software": run.software, "kind": run.features.kind,
            "gpus": run.gpus, "parameters": run.parameters, "tp": run.tp, "pp": run.pp, "measured": run.utilisation,
            "predicted": run.utilisation * exp(run.log_ratio), "error": exp(-run.log_ratio) - 1,
        }
        for run in residuals()
    ]  # fmt: skip
    return {"rows": rows}
