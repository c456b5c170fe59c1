"""What a question takes by default, each value with its origin, before anything is searched."""

from __future__ import annotations

from typing import Any

from podsim.options.plan_options import SearchOptions
from podsim.options.question import question
from podsim.training.job_inputs import batch_of, read_inputs
from podsim.training.plan import precision_of, software_of
from podsim.training.software import load_software
from podsim.workload.catalog import trained_length


@question(SearchOptions)
def default_values(options: SearchOptions) -> dict[str, Any]:
    """The model and the cluster in a line each, and the values that follow where none was given, with their origins.

    Raises what `podsim.plan` raises for names, sizes and overrides that cannot be.
    """
    model, cluster, gpus, notes = read_inputs(
        options.model, options.on, options.gpus, options.sequence, options.overrides
    )
    software = software_of(options.software, cluster.gpu)
    batch, _ = batch_of(options.batch, model.sequence, gpus)
    origins = {
        "gpus": (gpus, options.gpus, "the whole cluster"),
        "sequence": (model.sequence, options.sequence, f"as trained ({trained_length(model).source})"),
        "batch": (batch, options.batch, "about four million tokens a step"),
        "precision": (
            precision_of(options.precision, cluster),
            options.precision,
            f"what {cluster.gpu.name} trains in",
        ),
        "software": (
            software,
            options.software,
            f"calibrated on this GPU's family: {load_software(software).title}",
        ),
        "optimizer_precision": (options.optimizer_precision, None, "Adam's moments"),
    }
    return {
        "model": {
            "name": model.name, "family": model.family, "parameters": model.parameters,
            "active_parameters": model.active_parameters, "layers": model.layer_count, "source": model.source,
        },
        "cluster": {
            "name": cluster.name, "gpu": cluster.gpu.name, "gpus": cluster.gpus, "nodes": cluster.nodes,
            "memory": cluster.gpu.memory, "source": cluster.source,
        },
        "notes": notes,
        "values": [
            {"name": name, "value": value, "given": given is not None, "origin": "given" if given is not None else origin}
            for name, (value, given, origin) in origins.items()
        ],
    }  # fmt: skip
