"""A PyTorch module as a graph of ops: exported on tensors that hold no numbers, so that nothing is computed.

The only module outside the lab that loads PyTorch, when a function of it is called. `torch.export` gives the forward
pass; what the backward pass costs follows from which tensors need a gradient (podsim.workload.op_rules).
Source of the method: the documentation of torch.export and of torch.utils.flop_counter, PyTorch 2.6 to 2.13.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from podsim.errors import ModelError, PodsimError
from podsim.workload.op_graph import KINDS, WIDTH, OpGraph
from podsim.workload.op_rules import Call, Facts, Operand, facts_of, is_view

__all__ = ["capture_module", "load_torch", "module_of", "torch_flops"]


def load_torch() -> Any:
    """The torch module; PodsimError where it is not installed."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise PodsimError(
            "capturing a module needs PyTorch, which is not installed: pip install podsim[lab]; "
            "a graph that was captured elsewhere (podsim capture … --out graph.json) needs none"
        ) from error


def module_of(build: Any, where: str, shapes: Sequence[str]) -> tuple[Any, tuple[Any, ...]]:
    """(module, inputs) that a user's function makes, on the meta device: weights have shapes and no numbers.

    The function takes nothing and gives a module, or a module and its inputs; `shapes` replace the inputs
    ("8x3x224x224", "8x128:int64"). Raises ModelError for anything else.
    """
    torch = load_torch()
    with torch.device("meta"):
        made = _called(build, where)
        module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, ())
        if not isinstance(module, torch.nn.Module):
            raise ModelError(
                f"{where} gives {type(module).__name__}; it must give a torch.nn.Module, or a module and its inputs"
            )
        if shapes:
            inputs = tuple(_input(torch, shape) for shape in shapes)
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)) or not inputs:
        raise ModelError(
            f"{where}: no inputs; give --input 8x3x224x224 (or 8x128:int64), or return (module, inputs)"
        )
    return module.to("meta"), tuple(
        one.to("meta") if isinstance(one, torch.Tensor) else one for one in inputs
    )


def _called(build: Any, where: str) -> Any:
    try:
        return build()
    except Exception as error:  # a user's function may raise anything; what it is goes into the message
        raise ModelError(
            f"{where}: {type(error).__name__}: {_first(error)}; it is called without arguments, with tensors on the "
            "meta device, which hold no numbers: use no .item(), .tolist() or explicit device in it"
        ) from None


def _input(torch: Any, text: str) -> Any:
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
    program = _exported(torch, module, inputs, name)
    known = dict(module.named_parameters(remove_duplicate=False))
    walk = _Walk(
        torch, {key: id(one) for key, one in known.items()}, {id(one): one.numel() for one in known.values()}
    )
    for node in program.graph.nodes:
        walk.visit(node, program.graph_signature)
    used = sum(walk.parameters)
    total = sum(value.numel() for value in module.parameters())
    notes = list(walk.notes())
    if total != used:
        notes.append(f"{total - used:,} of {total:,} parameters are used by no op")
    batch = next((int(one.shape[0]) for one in inputs if isinstance(one, torch.Tensor) and one.ndim), 1)
    return walk.graph(
        name=name or type(module).__name__, source=source or f"torch.export of torch {torch.__version__}",
        batch=batch, element=_element(torch, module), notes=tuple(notes),
    )  # fmt: skip


def torch_flops(module: Any, inputs: tuple[Any, ...]) -> tuple[float, float] | None:
    """FLOP (forward, forward and backward) as PyTorch's own counter says; None if the module does not run so.

    Runs on the meta device: shapes only. The counter knows products and convolutions, as podsim does.
    """
    torch = load_torch()
    counter = import_module("torch.utils.flop_counter").FlopCounterMode
    try:
        with _quiet():
            with counter(display=False) as forward:
                out = module(*inputs)
            with counter(display=False) as backward:
                trained = [one for one in _leaves(torch, out) if one.requires_grad]
                if trained:
                    torch.autograd.backward(trained, [torch.ones_like(one) for one in trained])
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
def _quiet() -> Iterator[None]:
    """PyTorch's own warnings and logs, tracebacks among them, are not the user's."""
    held = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(held)


def _exported(torch: Any, module: Any, inputs: tuple[Any, ...], name: str) -> Any:
    try:
        with _quiet():
            return torch.export.export(module, inputs, strict=False)
    except Exception as error:  # torch raises many kinds, each for a reason the user can act on
        text = str(error)
        advice = next(
            (said for words, said in _ADVICE if any(word in text for word in words)), _ADVICE[-1][1]
        )
        raise ModelError(
            f"{name or type(module).__name__} cannot be exported: {type(error).__name__}: {_first(error)}; {advice}"
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


def _first(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else "no message")[:300].rstrip(".;")


def _element(torch: Any, module: Any) -> float:
    widths = [value.element_size() for value in module.parameters() if value.is_floating_point()]
    return float(max(set(widths), key=widths.count)) if widths else 4.0


@dataclass
class _Seen:
    """A tensor on its way through the graph."""

    operand: Operand
    op: int = -1
    """the op that made it; -1 for weights and inputs"""
    weights: frozenset[int] = frozenset()
    """parameters that it is a view of"""


@dataclass
class _Walk:
    """Visits the nodes of an exported program in order, and gathers the columns of a graph."""

    torch: Any
    identity: dict[str, int]
    """name of a parameter -> which it is; tied weights have several names"""
    sizes: dict[int, int]
    seen: dict[Any, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=list)
    parameters: list[int] = field(default_factory=list)
    outputs: list[float] = field(default_factory=list)
    trained: list[bool] = field(default_factory=list)
    before: list[dict[int, float]] = field(default_factory=list)
    """of each op: its predecessors, and the B it reads of each"""
    counted: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)

    def visit(self, node: Any, signature: Any) -> None:
        """One node: a weight or input, a view, or an op."""
        if node.op == "placeholder":
            self._placeholder(node, signature)
        elif node.op == "get_attr" and isinstance(node.meta.get("val"), self.torch.Tensor):
            self.seen[node] = _Seen(self._operand(node.meta.get("val"), False))
        elif node.op == "call_function":
            self._call(node)

    def _placeholder(self, node: Any, signature: Any) -> None:
        key = signature.inputs_to_parameters.get(node.name)
        value = node.meta.get("val")
        if not isinstance(value, self.torch.Tensor):
            return
        trained = key is not None and value.requires_grad
        weights = frozenset([self.identity[key]]) if key in self.identity else frozenset()
        self.seen[node] = _Seen(self._operand(value, trained), weights=weights)

    def _operand(self, value: Any, trained: bool) -> Operand:
        try:
            shape = tuple(int(size) for size in value.shape)
        except Exception:
            raise ModelError(
                f"a tensor has the shape {tuple(value.shape)}, which depends on the values of another; "
                "use masks instead of selecting elements"
            ) from None
        floating = bool(value.is_floating_point())
        return Operand(
            shape=shape, width=float(value.element_size()), trained=trained and floating, floating=floating
        )

    def _call(self, node: Any) -> None:
        target = _target(node)
        sources = [self.seen[one] for one in node.all_input_nodes if isinstance(self.seen.get(one), _Seen)]
        value = node.meta.get("val")
        if target == "getitem":
            parent = self.seen.get(node.args[0])
            if isinstance(parent, _Seen) and isinstance(value, self.torch.Tensor):
                out = self._operand(value, parent.operand.trained)
                self.seen[node] = _Seen(out, parent.op, parent.weights)
            return
        main = _main(self.torch, value)
        if main is None:
            if value is not None and isinstance(value, (tuple, list)) and sources:
                self.seen[node] = sources[0]
            return
        trained = any(one.operand.trained for one in sources)
        out = self._operand(main, trained)
        call = Call(
            target=target, arguments=self._read(node.args), named=self._named(node.kwargs), output=out
        )
        if is_view(call, self._copied(node, main)) and len(sources) == 1:
            self.seen[node] = _Seen(out, sources[0].op, sources[0].weights)
            return
        self._op(node, call, sources, out)

    def _op(self, node: Any, call: Call, sources: list[_Seen], out: Operand) -> None:
        op = len(self.names)
        facts = facts_of(call)
        stack = node.meta.get("nn_module_stack") or {}
        path = next((str(value[0]) for value in reversed(list(stack.values())) if value[0]), "")
        fresh = frozenset().union(*(one.weights for one in sources)) - self.counted
        self.counted |= fresh
        before: dict[int, float] = {}
        for one in sources:
            if one.op >= 0:
                before[one.op] = max(before.get(one.op, 0.0), one.operand.bytes)
                if facts.saves_inputs:
                    self.kept.add(one.op)
        if facts.saves_output:
            self.kept.add(op)
        self.names.append(path)
        self.targets.append(call.target)
        self.shapes.append(out.shape)
        self.facts.append(facts)
        self.parameters.append(sum(self.sizes[one] for one in fresh))
        self.outputs.append(out.bytes)
        self.trained.append(out.trained)
        self.before.append(before)
        self.seen[node] = _Seen(out, op)

    def _copied(self, node: Any, value: Any) -> bool:
        """Whether an op that may give a view made new memory."""
        first = node.args[0].meta.get("val") if node.args and hasattr(node.args[0], "meta") else None
        if not isinstance(first, self.torch.Tensor):
            return True
        if first.dtype != value.dtype or _target(node) == "clone":
            return True
        if tuple(first.shape) == tuple(value.shape):
            return bool(first.stride() != value.stride()) and _target(node) == "contiguous"
        try:
            like = self.torch.empty_strided(
                tuple(first.shape), first.stride(), dtype=first.dtype, device="meta"
            )
            like.view(tuple(value.shape))
        except RuntimeError:
            return True
        return False

    def _read(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(self._read(one) for one in value)
        if hasattr(value, "meta") and hasattr(value, "op"):
            found = self.seen.get(value)
            return found.operand if isinstance(found, _Seen) else None
        return value

    def _named(self, values: Any) -> dict[str, Any]:
        return {key: self._read(value) for key, value in values.items()}

    def notes(self) -> Iterator[str]:
        """What was counted by its bytes for want of a rule."""
        unknown = [target for target, facts in zip(self.targets, self.facts, strict=True) if facts.unknown]
        for target in dict.fromkeys(unknown):
            yield f"{unknown.count(target)} x {target}: no rule, counted by the bytes it reads and writes"

    def graph(self, *, name: str, source: str, batch: int, element: float, notes: tuple[str, ...]) -> OpGraph:
        """The graph of all that was visited; where a tensor has several readers, their gradients are added up."""
        n = len(self.names)
        readers = np.zeros(n)
        for op, one in enumerate(self.before):
            for earlier in one:
                readers[earlier] += self.trained[op] and self.trained[earlier]
        added = np.maximum(readers - 1, 0.0)
        output = np.array(self.outputs, dtype=float)
        dims_OD = np.zeros((n, WIDTH), dtype=np.int64)
        for op, facts in enumerate(self.facts):
            dims_OD[op, : len(facts.dims)] = facts.dims
        of = {key: np.array([getattr(one, key) for one in self.facts], dtype=float) for key in _COLUMNS}
        kept = np.isin(np.arange(n), list(self.kept)) * output + of.pop("extra")
        of["read_back"] += 2 * added * output
        of["written_back"] += added * output
        of["kernels_back"] += added
        return OpGraph(
            name=name, source=source, batch=batch, element=element, notes=notes, names=tuple(self.names),
            targets=tuple(self.targets), shapes=tuple(self.shapes),
            kind=np.array([KINDS.index(one.kind) for one in self.facts], dtype=np.int64), dims_OD=dims_OD,
            gradient_OA=np.array([one.gradient for one in self.facts], dtype=bool).reshape(n, 2),
            parameters=np.array(self.parameters, dtype=float), output=output, kept=kept,
            first=np.cumsum([0, *(len(one) for one in self.before)]).astype(np.int64),
            before=np.array([op for one in self.before for op in sorted(one)], dtype=np.int64),
            carried=np.array([one[op] for one in self.before for op in sorted(one)], dtype=float), **of,
        )  # fmt: skip


_COLUMNS = (
    "flops", "flops_back", "read", "written", "read_back", "written_back", "kernels", "kernels_back", "extra",
)  # fmt: skip


def _main(torch: Any, value: Any) -> Any:
    """The tensor that an op gives, or the first of several; None for other things."""
    if isinstance(value, torch.Tensor):
        return value
    return (
        next((one for one in value if isinstance(one, torch.Tensor)), None)
        if isinstance(value, (tuple, list))
        else None
    )


def _target(node: Any) -> str:
    """Name of an op without namespace, overload and the underscore of in-place ops."""
    target = node.target
    if hasattr(target, "overloadpacket"):
        name = str(target.overloadpacket).partition(".")[2] or str(target)
    else:
        name = getattr(target, "__name__", str(target))
    if name in _HIGHER or "higher_order" in type(target).__module__:
        raise ModelError(
            f"the module holds {name}, a graph inside the graph: leave autocast, checkpointing and no_grad out of "
            "forward (podsim has --precision), and take branches in Python"
        )
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


_HIGHER = frozenset((
    "cond", "while_loop", "wrap_with_set_grad_enabled", "wrap_with_autocast", "tag_activation_checkpoint",
    "map_impl", "scan",
))  # fmt: skip
