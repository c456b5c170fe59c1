"""`podsim capture`: a user's own module as a graph of ops."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from podsim.answers.graphs import Captured
from podsim.errors import ModelError, unknown_name
from podsim.graphs.capturing import capture_module, load_torch, make_module, torch_flops
from podsim.graphs.op_graph import DIMS, KINDS, OpGraph
from podsim.graphs.op_graph_batch import BATCHES, for_any_batch
from podsim.graphs.op_graph_json import to_value, write_value
from podsim.options.graph_options import CaptureOptions
from podsim.options.question import question

_LARGEST = 1 << 20


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


def any_batch(shapes: Sequence[str]) -> bool:
    """Whether a shape leaves the batch open."""
    return any("B" in shape.partition(":")[0].split("x") for shape in shapes)


def at_samples(shapes: Sequence[str], batch: int) -> list[str]:
    """The shapes with a number for B."""
    made = []
    for shape in shapes:
        sizes, colon, kind = shape.partition(":")
        made.append("x".join(str(batch) if n == "B" else n for n in sizes.split("x")) + colon + kind)
    return made


def captured_for_any(target: str, shapes: Sequence[str]) -> dict[str, Any]:
    """JSON value of the graph of FILE.py:FUNCTION for any batch; ModelError if its numbers do not grow evenly."""
    values = []
    for batch in BATCHES:
        graph, _ = captured(target, at_samples(shapes, batch), count=False)
        if graph.batch != batch:
            raise ModelError(f"--input {shapes[0]}: B must be the first size of the first input: Bx3x224x224")
        said = f"captured from {Path(target.rpartition(':')[0]).name}:{target.rpartition(':')[2]}, {', '.join(shapes)}"
        values.append((batch, {**to_value(graph), "source": said}))
    made: dict[str, Any] = for_any_batch(values)
    return made


def captured(
    target: str, shapes: Sequence[str], *, count: bool
) -> tuple[OpGraph, tuple[float, float] | None]:
    """The graph of FILE.py:FUNCTION, and if it is to be counted what PyTorch's own counter says of the module."""
    path, _, function = target.rpartition(":")
    if not path.endswith(".py") or not function.isidentifier():
        raise ModelError(f"{target[-120:]!r}: expected FILE.py:FUNCTION, such as net.py:build")
    with _beside(path):
        module, inputs = make_module(_function(path, function), target[-120:], shapes)
        said = ", ".join("x".join(str(n) for n in array.shape) for array in inputs if hasattr(array, "shape"))
        graph = capture_module(module, inputs, source=f"captured from {Path(path).name}:{function}, {said}")
        return graph, torch_flops(module, inputs) if count else None


def _grouped(graph: OpGraph) -> bool:
    """Whether a convolution has groups."""
    rows = graph.kind == KINDS.index("conv")
    return bool((graph.dims_OD[rows, DIMS["conv"].index("groups")] > 1).any())


@contextmanager
def _beside(path: str) -> Iterator[None]:
    """A user's file may import its neighbours; what it prints is no result of ours."""
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path.remove(folder)


def _function(path: str, name: str) -> Any:
    """A function of a user's file, which is run as a separate module."""
    load_torch()  # before the file, whose own import would fail with a worse message
    try:
        if Path(path).stat().st_size > _LARGEST:
            raise ModelError(f"{path[-120:]}: larger than 1 MiB")
        source = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"{path[-120:]}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    made = ModuleType("podsim_user_module")
    made.__file__ = path
    sys.modules[made.__name__] = made  # dataclasses of the file look themselves up there
    try:
        exec(compile(source, path, "exec"), made.__dict__)
    except Exception as error:  # a user's file may raise anything; what it is goes into the message
        raise ModelError(f"{path[-120:]}: {type(error).__name__}: {error}") from None
    function = getattr(made, name, None)
    if not callable(function):
        own = [key for key, value in vars(made).items() if callable(value) and not key.startswith("_")]
        raise ModelError(f"{path[-120:]}: {unknown_name('function', name, own)}")
    return function
