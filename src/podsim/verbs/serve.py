"""`podsim serve`: a model that answers requests on GPUs or on MIG instances."""

from __future__ import annotations

from podsim.errors import PodsimError
from podsim.options.question import question
from podsim.options.serving_options import ServeOptions
from podsim.results.served import Figure, Served
from podsim.serving.white_paper import figure
from podsim.verbs.serve_network import serve_network


@question(ServeOptions)
def serve(options: ServeOptions) -> Served | Figure:
    """Predict a model's latency, throughput and memory by batch on a GPU or on MIG instances.

    `on` is a GPU ("a100-40gb"), an instance of one ("a100-40gb/1g.5gb"), several equal ones ("a100-40gb/7x1g.5gb",
    "8xa100-40gb"), or a system or cluster for all its GPUs ("dgx-a100-40gb/7x1g.5gb"). A figure of the white paper is
    made instead of a prediction, and takes no model and no GPU.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits the memory and the limit.
    """
    if options.figure is not None:
        if options.model or options.on:
            raise PodsimError("figure: a figure of the white paper takes no model and no GPU")
        return figure(options.figure)
    if not options.model or not options.on:
        raise PodsimError("serve needs a model and a GPU: podsim serve bert-large --on a100-40gb/1g.5gb")
    return serve_network(options)
