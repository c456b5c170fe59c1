"""The capture of a PyTorch module as a graph of ops: an export on tensors without numbers, which computes nothing.

This is the only module outside the lab that loads PyTorch, on the first call. `torch.export` gives the forward pass.
The cost of the backward pass follows from the tensors that need a gradient (podsim.graphs.op_rules).
Source of the method: the documentation of torch.export and of torch.utils.flop_counter, PyTorch 2.6 to 2.13.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from podsim.errors import ModelError, PodsimError
from podsim.graphs.capture_walk import Walk, element_bytes
from podsim.graphs.op_graph import OpGraph
from podsim.packaged import install_hint


def load_torch() -> Any:
    """The torch module. Raises PodsimError if it is not installed."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise PodsimError(
            f"capturing a module needs PyTorch, which is not installed: {install_hint('lab')}; "
            "a graph captured elsewhere (podsim capture … --out graph.json) works without it"
        ) from error


def make_module(build: Any, where: str, shapes: Sequence[str]) -> tuple[Any, tuple[Any, ...]]:
    """(module, inputs) of a user's function, on the meta device: weights have shapes but no numbers.

    The function takes no arguments and returns a module, or a module and its inputs; `shapes` replace the inputs
    ("8x3x224x224", "8x128:int64"). Raises ModelError for anything else.
    """
    torch = load_torch()
    with torch.device("meta"):
        made = _call_builder(build, where)
        module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, ())
        if not isinstance(module, torch.nn.Module):
            raise ModelError(
                f"{where} returns {type(module).__name__}; it must return a torch.nn.Module, or a module and its inputs"
            )
        if shapes:
            inputs = tuple(_make_input(torch, shape) for shape in shapes)
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)) or not inputs:
        raise ModelError(
            f"{where}: no inputs; give --input 8x3x224x224 (or 8x128:int64), or return (module, inputs)"
        )
    return module.to("meta"), tuple(
        item.to("meta") if isinstance(item, torch.Tensor) else item for item in inputs
    )


def _call_builder(build: Any, where: str) -> Any:
    try:
        return build()
    except Exception as error:  # a user's function may raise anything; the message names it
        raise ModelError(
            f"{where}: {type(error).__name__}: {_first_line(error)}; it must run without arguments, with tensors on the "
            "meta device, which hold no numbers: use no .item(), .tolist() or explicit device in it"
        ) from None


def _make_input(torch: Any, text: str) -> Any:
    shape, _, kind = text.partition(":")
    try:
        sizes = [int(part) for part in shape.split("x")]
        dtype = getattr(torch, kind or "float32")
        if not sizes or min(sizes) < 1 or max(sizes) > 2**40 or not isinstance(dtype, torch.dtype):
            raise ValueError
        return torch.zeros(sizes, dtype=dtype)
    except (ValueError, AttributeError):
        raise ModelError(
            f"--input {text[:60]!r}: expected sizes and, unless they are floats, a type: 8x3x224x224, 8x128:int64"
        ) from None


def capture_module(module: Any, inputs: tuple[Any, ...], *, name: str = "", source: str = "") -> OpGraph:
    """The graph of one training step of a module on such inputs.

    The export uses the module's current mode (train() or eval()). Raises ModelError if the export fails, with the
    reason and a remedy, and for ops that hide their arithmetic.
    """
    torch = load_torch()
    program = _export(torch, module, inputs, name)
    known = dict(module.named_parameters(remove_duplicate=False))
    walk = Walk(
        torch, {key: id(weight) for key, weight in known.items()}, {id(w): w.numel() for w in known.values()}
    )
    for node in program.graph.nodes:
        walk.visit(node, program.graph_signature)
    if not walk.names:
        raise ModelError(
            f"{name or type(module).__name__} has no ops: its outputs are its inputs, or views of them"
        )
    used = sum(walk.parameters) + walk.sparse
    total = sum(value.numel() for value in module.parameters())
    notes = list(walk.notes())
    if total != used:
        notes.append(f"{total - used:,} of {total:,} parameters are used by no op")
    batch = next((int(item.shape[0]) for item in inputs if isinstance(item, torch.Tensor) and item.ndim), 1)
    return walk.graph(
        name=name or type(module).__name__, source=source or f"torch.export of torch {torch.__version__}",
        batch=batch, element=element_bytes(module), notes=tuple(notes),
    )  # fmt: skip


def torch_flops(module: Any, inputs: tuple[Any, ...]) -> tuple[float, float] | None:
    """FLOP (forward, forward and backward) of PyTorch's own counter; None if the module does not run on meta tensors.

    Shapes suffice on the meta device. The counter covers products and convolutions, as podsim does.
    """
    torch = load_torch()
    counter = import_module("torch.utils.flop_counter").FlopCounterMode
    try:
        with _silence_torch():
            with counter(display=False) as forward:
                out = module(*inputs)
            with counter(display=False) as backward:
                trained = [leaf for leaf in _leaves(torch, out) if leaf.requires_grad]
                if trained:
                    torch.autograd.backward(trained, [torch.ones_like(leaf) for leaf in trained])
    except Exception:  # some modules export but do not run on meta tensors; they go without this check
        return None
    finally:
        module.zero_grad(set_to_none=True)
    return float(forward.get_total_flops()), float(forward.get_total_flops() + backward.get_total_flops())


def _leaves(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [leaf for part in parts for leaf in _leaves(torch, part)]


@contextmanager
def _silence_torch() -> Iterator[None]:
    """Hide PyTorch's own warnings, logs and tracebacks."""
    held = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(held)


def _export(torch: Any, module: Any, inputs: tuple[Any, ...], name: str) -> Any:
    try:
        with _silence_torch():
            return torch.export.export(module, inputs, strict=False)
    except Exception as error:  # torch raises many kinds of errors, each with a remedy
        text = str(error)
        advice = next(
            (said for words, said in _ADVICE if any(word in text for word in words)), _ADVICE[-1][1]
        )
        raise ModelError(
            f"{name or type(module).__name__} cannot be exported: {type(error).__name__}: {_first_line(error)}; {advice}"
        ) from None


_ADVICE = (
    (("data-dependent", "Data-dependent", "GuardOnDataDependent", "_local_scalar_dense", ".item()", "aten::equal"),
     "a branch or a shape depends on the values of a tensor, which a capture does not have: use masks (torch.where), or "
     "take the branch from a Python argument"),
    (("Long, Int", "scalar types", "integer tensor", "indices"),
     "an embedding needs integers: give --input 8x128:int64"),
    (("shape", "size mismatch", "reduction dim", "must match", "Expected", "expected", "channels"),
     "the inputs do not fit the module: check --input, whose first size is the batch"),
    (("takes", "positional argument", "missing"),
     "give one --input for each argument of forward"),
    (("device",),
     "tensors made inside forward must take the device of an input: device=x.device"),
    (("",), "see torch.export's documentation; python side effects, custom C++ ops and data-dependent control flow "
     "cannot be exported"),
)  # fmt: skip
"""The remedy for each group of words in torch's message; the first match counts."""


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else "no message")[:300].rstrip(".;")
