"""`podsim capture`: a user's own module as a graph of ops."""

from __future__ import annotations

from podsim.answers.graphs import Captured
from podsim.graphs.module_capture import any_batch, at_samples, captured, captured_for_any
from podsim.graphs.op_graph import DIMS, KINDS, OpGraph
from podsim.graphs.op_graph_batch import BATCHES
from podsim.graphs.op_graph_json import to_value, write_value
from podsim.options.graph_options import CaptureOptions
from podsim.options.question import question


@question(CaptureOptions)
def capture(options: CaptureOptions) -> Captured:
    """Capture the graph of a PyTorch module, without computing anything.

    `module` is FILE.py:FUNCTION: the function takes nothing and gives a torch.nn.Module, or a module and its inputs.
    `input` gives the shapes of the inputs ("8x3x224x224", "8x128:int64"), one for each argument of forward; with B for
    the samples ("Bx3x224x224") the graph is one for any batch. `out` is a JSON file (gzipped if it ends in .gz) that
    `podsim graph` reads, also where PyTorch is missing. Arithmetic is held against PyTorch's own counter. Raises
    PodsimError without PyTorch, ModelError for a module that cannot be exported.
    """
    shapes = options.input or ()
    graph, own = captured(options.module, at_samples(shapes, BATCHES[0]), count=True)
    value = captured_for_any(options.module, shapes) if any_batch(shapes) else to_value(graph)
    if options.out is not None:
        write_value(value, options.out)
    kinds: dict[str, int] = {}
    for kind in graph.kind_names:
        kinds[kind] = kinds.get(kind, 0) + 1
    flops, back = float(graph.flops.sum()), float(graph.flops_back.sum())
    notes = graph.notes
    if own is None:
        notes = (
            *notes,
            "PyTorch's own counter could not run this module on tensors without numbers: no comparison",
        )
    elif (own[0], own[1]) != (flops, flops + back):
        said = f"PyTorch's own counter says {own[0]:.6g} FLOP forward and {own[1] - own[0]:.6g} backward"
        why = "; it does not divide the weight gradients of grouped convolutions" if _grouped(graph) else ""
        notes = (*notes, said + why)
    return Captured(
        model=graph.name, source=graph.source, batch=graph.batch, ops=len(graph),
        kinds=dict(sorted(kinds.items(), key=lambda item: -item[1])), parameters=float(graph.parameters.sum()),
        flops=flops, flops_back=back, torch_flops=None if own is None else own[0],
        torch_flops_back=None if own is None else own[1] - own[0], kept=float(graph.kept.sum()),
        file="" if options.out is None else str(options.out), notes=notes,
    )  # fmt: skip


def _grouped(graph: OpGraph) -> bool:
    """Whether a convolution has groups."""
    rows = graph.kind == KINDS.index("conv")
    return bool((graph.dims[rows, DIMS["conv"].index("groups")] > 1).any())
