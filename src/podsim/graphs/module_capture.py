"""The graph of a function of a user's file: FILE.py:FUNCTION, captured with PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from podsim.errors import ModelError, unknown_name
from podsim.graphs.capturing import capture_module, load_torch, make_module, torch_flops
from podsim.graphs.networks import load_network, networks
from podsim.graphs.op_graph import OpGraph
from podsim.graphs.op_graph_batch import BATCHES, for_any_batch
from podsim.graphs.op_graph_json import check_batch, read_graph, to_value

_LARGEST = 1 << 20


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


def captured_graph(file: str, shapes: Sequence[str], batch: int | None) -> OpGraph:
    """The graph of a name, a file or a module, for a batch. Raises PodsimError for anything unusable."""
    if batch is not None:
        check_batch(batch)
    if ".py:" in file:
        if any_batch(shapes) == (batch is None):
            said = (
                "say which: --batch 32"
                if batch is None
                else "is for --input with B for the samples: Bx3x224x224"
            )
            raise ModelError(f"--batch: {said}")
        return captured(file, at_samples(shapes, batch or 1), count=False)[0]
    if shapes:
        raise ModelError(f"--input: the inputs of {file[-80:]} are in the graph; it is for FILE.py:FUNCTION")
    if file.endswith(".py"):
        raise ModelError(f"{file[-120:]}: name the function that gives the module: {file[-120:]}:FUNCTION")
    if Path(file).suffix or "/" in file:
        return read_graph(Path(file), batch)
    if batch is None and file in networks():
        raise ModelError(f"{file}: say how many samples a step has: --batch 32")
    return load_network(file, batch or 1)
