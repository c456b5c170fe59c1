"""`podsim models`: the models of the catalog, and the captured networks."""

from __future__ import annotations

from podsim.answers.answer import View
from podsim.graphs.networks import networks
from podsim.hardware.catalog import named_rows
from podsim.options.machine_options import CatalogFilter
from podsim.options.question import question
from podsim.workload.catalog import load_model, model_names


@question(CatalogFilter, view=View(report="report.sheets:models_report"))
def models(options: CatalogFilter) -> list[dict[str, object]]:
    """Every model of the catalog: name, family, layers, hidden, parameters, sequence, source; then captured networks.

    `text` keeps those whose name or family holds it. Raises CatalogError where none does.
    """
    rows: list[dict[str, object]] = []
    for name in model_names():
        model = load_model(name)
        rows.append({
            "name": name, "family": model.family, "layers": model.layer_count, "hidden": model.hidden,
            "parameters": model.parameters, "active_parameters": model.active_parameters,
            "sequence": model.sequence, "source": model.source,
        })  # fmt: skip
    for network in networks().values():
        rows.append({
            "name": network.name, "family": "captured network", "layers": None, "hidden": None,
            "parameters": network.all_parameters, "active_parameters": network.all_parameters, "sequence": None,
            "source": network.source,
        })  # fmt: skip
    return named_rows(rows, options.text)
