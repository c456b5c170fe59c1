"""The walk over an exported PyTorch program that gathers the columns of a graph. PyTorch is an argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podsim.errors import ModelError
from podsim.graphs.op_graph import KINDS, SPARSE, WIDTH, OpGraph
from podsim.graphs.op_products import Facts, Operand
from podsim.graphs.op_recurrent import CELLS, LAYERS, recurrent_parts
from podsim.graphs.op_rules import MADE, Call, facts_of, is_view


@dataclass
class _Seen:
    """A tensor of the program."""

    operand: Operand
    op: int = -1
    """The op that made it; -1 for weights and inputs."""
    weights: frozenset[int] = frozenset()
    """The parameters behind this view."""


@dataclass
class Walk:
    """A visitor of the nodes of an exported program that gathers the columns of a graph."""

    torch: Any
    identity: dict[str, int]
    """The identity of each parameter by name; tied weights have several names."""
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
    """The predecessors of each op, with the B that it reads of each."""
    counted: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    sparse: int = 0
    """The number of weights in tables with sparse gradients."""

    def visit(self, node: Any, signature: Any) -> None:
        """Visit one node: a weight or input, a view, or an op."""
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
                "use masks instead of a selection of elements"
            ) from None
        floating = bool(value.is_floating_point())
        return Operand(
            shape=shape, width=float(value.element_size()), trained=trained and floating, floating=floating
        )

    def _call(self, node: Any) -> None:
        target = _target(node)
        sources = [self.seen[n] for n in node.all_input_nodes if isinstance(self.seen.get(n), _Seen)]
        value = node.meta.get("val")
        if target == "broadcast_tensors":  # a view of each of its tensors
            self.seen[node] = [self.seen.get(tensor) for tensor in node.args[0]]
            return
        if target == "getitem":
            parent = self.seen.get(node.args[0])
            if isinstance(parent, list):
                parent = parent[node.args[1]]
            if isinstance(parent, _Seen) and isinstance(value, self.torch.Tensor):
                out = self._operand(value, parent.operand.trained)
                self.seen[node] = _Seen(out, parent.op, parent.weights)
            return
        main = _main_tensor(self.torch, value)
        if main is None:
            if value is not None and isinstance(value, (tuple, list)) and sources:
                self.seen[node] = sources[0]
            return
        cut = target == "detach" or target in MADE
        trained = not cut and any(source.operand.trained for source in sources)
        out = self._operand(main, trained)
        call = Call(
            target=target, arguments=self._read(node.args), named=self._read_named(node.kwargs), output=out
        )
        if is_view(call, self._is_copied(node, main)) and len(sources) == 1:
            self.seen[node] = _Seen(out, sources[0].op, sources[0].weights)
            return
        if target in LAYERS or target in CELLS:
            self._recurrent(node, call, out)
        else:
            self.seen[node] = self._op(_path(node), target, facts_of(call), sources, out)

    def _recurrent(self, node: Any, call: Call, out: Operand) -> None:
        """Add a recurrent layer as a chain of ops; the first one reads the inputs."""
        if call.target in CELLS:
            places = list(node.args[2:])
        else:
            places = list(node.args[2]) if isinstance(node.args[2], (tuple, list)) else []
        hidden = self.seen[node.args[0]]
        for part in recurrent_parts(call.target, call.arguments, out):
            weights = [self.seen[places[i]] for i in part.weights]
            hidden = self._op(_path(node), part.target, part.facts, [hidden, *weights], part.output)
        self.seen[node] = hidden

    def _op(self, path: str, target: str, facts: Facts, sources: list[_Seen], out: Operand) -> _Seen:
        op = len(self.names)
        fresh = frozenset().union(*(source.weights for source in sources)) - self.counted
        self.counted |= fresh
        before: dict[int, float] = {}
        for source in sources:
            if source.op >= 0:
                before[source.op] = max(before.get(source.op, 0.0), source.operand.bytes)
                if facts.saves_inputs:
                    self.kept.add(source.op)
        if facts.saves_output:
            self.kept.add(op)
        self.names.append(path)
        self.targets.append(SPARSE if facts.sparse else target)
        self.shapes.append(out.shape)
        self.facts.append(facts)
        weights = sum(self.sizes[weight] for weight in fresh)
        self.parameters.append(0 if facts.sparse else weights)
        self.sparse += weights if facts.sparse else 0
        self.outputs.append(out.bytes)
        self.trained.append(out.trained)
        self.before.append(before)
        return _Seen(out, op)

    def _is_copied(self, node: Any, value: Any) -> bool:
        """Whether an op made new memory instead of a view."""
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
            return tuple(self._read(item) for item in value)
        if hasattr(value, "meta") and hasattr(value, "op"):
            source = self.seen.get(value)
            return source.operand if isinstance(source, _Seen) else None
        return value

    def _read_named(self, values: Any) -> dict[str, Any]:
        return {key: self._read(value) for key, value in values.items()}

    def notes(self) -> Iterator[str]:
        """The limits of the capture: ops without a rule, and tables with sparse gradients."""
        unknown = [target for target, facts in zip(self.targets, self.facts, strict=True) if facts.unknown]
        for target in dict.fromkeys(unknown):
            yield f"{unknown.count(target)} x {target}: no rule, counted by the bytes it reads and writes"
        if self.sparse:
            yield f"{self.sparse:,} weights in tables with sparse gradients: a step reads and updates its own rows alone"

    def graph(self, *, name: str, source: str, batch: int, element: float, notes: tuple[str, ...]) -> OpGraph:
        """The graph of the visited nodes. If a tensor has several readers, ops add up their gradients."""
        n = len(self.names)
        readers = np.zeros(n)
        for op, edges in enumerate(self.before):
            for earlier in edges:
                readers[earlier] += self.trained[op] and self.trained[earlier]
        added = np.maximum(readers - 1, 0.0)
        output = np.array(self.outputs, dtype=float)
        dims = np.zeros((n, WIDTH), dtype=np.int64)  # [op, extent]
        for op, facts in enumerate(self.facts):
            dims[op, : len(facts.dims)] = facts.dims
        of = {key: np.array([getattr(facts, key) for facts in self.facts], dtype=float) for key in _COLUMNS}
        kept = np.isin(np.arange(n), list(self.kept)) * output + of.pop("extra")
        of["read_back"] += 2 * added * output
        of["written_back"] += added * output
        of["kernels_back"] += added
        return OpGraph(
            name=name, source=source, batch=batch, element=element, notes=notes, table_weights=float(self.sparse),
            frozen=0.0, names=tuple(self.names),
            targets=tuple(self.targets), shapes=tuple(self.shapes),
            kind=np.array([KINDS.index(facts.kind) for facts in self.facts], dtype=np.int64), dims=dims,
            gradient=np.array([facts.gradient for facts in self.facts], dtype=bool).reshape(n, 2),
            parameters=np.array(self.parameters, dtype=float), output=output, kept=kept,
            first=np.cumsum([0, *(len(edges) for edges in self.before)]).astype(np.int64),
            before=np.array([op for edges in self.before for op in sorted(edges)], dtype=np.int64),
            carried=np.array([edges[op] for edges in self.before for op in sorted(edges)], dtype=float), **of,
        )  # fmt: skip


_COLUMNS = (
    "flops", "flops_back", "read", "written", "read_back", "written_back", "kernels", "kernels_back", "extra",
)  # fmt: skip


def _path(node: Any) -> str:
    """The path of a node's module."""
    stack = node.meta.get("nn_module_stack") or {}
    return next((str(value[0]) for value in reversed(list(stack.values())) if value[0]), "")


def _main_tensor(torch: Any, value: Any) -> Any:
    """The tensor that an op gives, or the first of several; None for other values."""
    if isinstance(value, torch.Tensor):
        return value
    return (
        next((item for item in value if isinstance(item, torch.Tensor)), None)
        if isinstance(value, (tuple, list))
        else None
    )


def _target(node: Any) -> str:
    """The name of an op without namespace, overload and the underscore of in-place ops."""
    target = node.target
    if hasattr(target, "overloadpacket"):
        name = str(target.overloadpacket).partition(".")[2] or str(target)
    else:
        name = getattr(target, "__name__", str(target))
    if name in _HIGHER or "higher_order" in type(target).__module__:
        raise ModelError(
            f"the module holds {name}, a graph inside the graph: leave autocast and no_grad out of "
            "forward (podsim has --precision), and take branches in Python"
        )
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


_HIGHER = frozenset((
    "cond", "while_loop", "wrap_with_set_grad_enabled", "wrap_with_autocast", "tag_activation_checkpoint",
    "map_impl", "scan",
))  # fmt: skip


def element_bytes(module: Any) -> float:
    """B of an element, the most frequent among the module's weights."""
    widths = [value.element_size() for value in module.parameters() if value.is_floating_point()]
    return float(max(set(widths), key=widths.count)) if widths else 4.0
