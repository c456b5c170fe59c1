"""A PyTorch module as a graph of ops: exported on tensors that hold no numbers, so that nothing is computed.

The only module outside the lab that loads PyTorch, when a function of it is called. `torch.export` gives the forward
pass; what the backward pass costs follows from which tensors need a gradient (podsim.graphs.op_rules).
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


def load_torch() -> Any:
    """The torch module; PodsimError where it is not installed."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise PodsimError(
            "capturing a module needs PyTorch, which is not installed: pip install podsim[lab]; "
            "a graph that was captured elsewhere (podsim capture … --out graph.json) needs none"
        ) from error


def make_module(build: Any, where: str, shapes: Sequence[str]) -> tuple[Any, tuple[Any, ...]]:
    """(module, inputs) that a user's function makes, on the meta device: weights have shapes and no numbers.

    The function takes nothing and gives a module, or a module and its inputs; `shapes` replace the inputs
    ("8x3x224x224", "8x128:int64"). Raises ModelError for anything else.
    """
    torch = load_torch()
    with torch.device("meta"):
        made = _call_builder(build, where)
        module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, ())
        if not isinstance(module, torch.nn.Module):
            raise ModelError(
                f"{where} gives {type(module).__name__}; it must give a torch.nn.Module, or a module and its inputs"
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
    except Exception as error:  # a user's function may raise anything; what it is goes into the message
        raise ModelError(
            f"{where}: {type(error).__name__}: {_first_line(error)}; it is called without arguments, with tensors on the "
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
            f"--input {text[:60]!r}: expected sizes and, if they are no floats, a type: 8x3x224x224, 8x128:int64"
        ) from None


def capture_module(module: Any, inputs: tuple[Any, ...], *, name: str = "", source: str = "") -> OpGraph:
    """The graph of one training step of a module on inputs like these.

    The module is exported in the mode it is in (train() or eval()). Raises ModelError if it cannot be, saying why and
    what to change, and for ops that hide their arithmetic.
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
            f"{name or type(module).__name__} holds no op: its outputs are its inputs, or views of them"
        )
    used = sum(walk.parameters) + walk.sparse
    total = sum(value.numel() for value in module.parameters())
    notes = list(walk.notes())
    if total != used:
        notes.append(f"{total - used:,} of {total:,} parameters are used by no op")
    batch = next((int(item.shape[0]) for item in inputs if isinstance(item, torch.Tensor) and item.ndim), 1)
    return walk.graph(
        name=name or type(module).__name__, source=source or f"torch.export of torch {torch.__version__}",
        batch=batch, element=element_bytes(torch, module), notes=tuple(notes),
    )  # fmt: skip


def torch_flops(module: Any, inputs: tuple[Any, ...]) -> tuple[float, float] | None:
    """FLOP (forward, forward and backward) as PyTorch's own counter says; None if the module does not run so.

    Runs on the meta device: shapes only. The counter knows products and convolutions, as podsim does.
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
    except Exception:  # a module may be exported and yet not run on meta tensors; the check is then left out
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
    """PyTorch's own warnings and logs, tracebacks among them, are not the user's."""
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
    except Exception as error:  # torch raises many kinds, each for a reason the user can act on
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
     "an embedding wants whole numbers: give --input 8x128:int64"),
    (("shape", "size mismatch", "reduction dim", "must match", "Expected", "expected", "channels"),
     "the inputs do not fit the module: check --input, whose first size is the batch"),
    (("takes", "positional argument", "missing"),
     "give one --input for each argument of forward"),
    (("device",),
     "tensors made inside forward must take the device of an input: device=x.device"),
    (("",), "see torch.export's documentation; python side effects, custom C++ ops and data-dependent control flow "
     "cannot be exported"),
)  # fmt: skip
"""words of torch's message -> what to change; the first that fits"""


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else "no message")[:300].rstrip(".;")
