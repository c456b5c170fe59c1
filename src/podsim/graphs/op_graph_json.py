"""A captured graph as JSON with one op per line, for machines without PyTorch; gzipped if the name ends in .gz."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from podsim.errors import ModelError, unknown_name
from podsim.foreign_files import read_json, read_text
from podsim.graphs.op_graph import DIMS, KINDS, WIDTH, OpGraph, topological_order
from podsim.graphs.op_graph_batch import at_batch, is_for_any_batch, plain_number
from podsim.version import check_format
from podsim.whole_files import write_whole

_VERSION = 1
_LARGEST = 1 << 28
_NUMBERS = (
    "flops", "flops_back", "read", "written", "read_back", "written_back", "kernels", "kernels_back", "parameters",
    "output", "kept",
)  # fmt: skip


def to_value(graph: OpGraph) -> dict[str, Any]:
    """The JSON value of a graph, in SI; `before` and `carries` are the predecessors of each op and their bytes."""
    return {
        "podsim_graph": _VERSION, "name": graph.name, "source": graph.source, "batch": graph.batch,
        "element": graph.element, "notes": list(graph.notes),
        **({"table_weights": int(graph.table_weights)} if graph.table_weights else {}),
        "ops": [_op(graph, i) for i in range(len(graph))],
    }  # fmt: skip


def to_text(value: dict[str, Any]) -> str:
    """The JSON text of a graph's value."""
    head = {key: item for key, item in value.items() if key != "ops"}
    lines = ",\n".join("  " + json.dumps(op) for op in value["ops"])
    return json.dumps(head)[:-1] + ', "ops": [\n' + lines + "\n]}\n"


def _op(graph: OpGraph, i: int) -> dict[str, Any]:
    kind = KINDS[graph.kind[i]]
    edges = slice(graph.first[i], graph.first[i + 1])
    op: dict[str, Any] = {
        "name": graph.names[i], "op": graph.targets[i], "kind": kind, "shape": list(graph.shapes[i]),
        "before": graph.before[edges].tolist(), "carries": [plain_number(b) for b in graph.carried[edges]],
    }  # fmt: skip
    if kind in DIMS:
        op["dims"] = graph.dims[i, : len(DIMS[kind])].tolist()
        op["gradient"] = graph.gradient[i].tolist()
    for key in _NUMBERS:
        value = float(getattr(graph, key)[i])
        if value:
            op[key] = plain_number(value)
    return op


def write_value(value: dict[str, Any], path: Path) -> None:
    """Write a graph's value to a file. Raises ModelError for an unwritable file."""
    text = to_text(value).encode("utf-8")
    try:
        write_whole(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_value(path: Path) -> dict[str, Any]:
    """The JSON value of a file. Raises ModelError for a file without a graph."""
    text = read_text(path, most=_LARGEST, error=ModelError)
    value = read_json(text, name=str(path), error=ModelError)
    if not isinstance(value, dict) or "podsim_graph" not in value:
        raise ModelError(f"{path}: is not a graph of `podsim capture`: it has no podsim_graph")
    check_format(value["podsim_graph"], _VERSION, name=str(path), error=ModelError)
    return value


def read_graph(path: Path, batch: int | None = None) -> OpGraph:
    """The graph of a file, with ops in any order. `batch` is for a graph captured for any batch (xB).

    Raises ModelError for another file, with all wrong ops, for a graph with a cycle, and for a batch that is missing or
    cannot be chosen.
    """
    return graph_of(read_value(path), str(path), batch)


def check_batch(batch: int) -> None:
    """Raise ModelError unless a batch is a positive integer."""
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= 2**30:
        raise ModelError(f"batch={batch!r} must be a whole number from 1")


def graph_of(value: dict[str, Any], where: str, batch: int | None = None, *, check: bool = True) -> OpGraph:
    """The graph of a JSON value from `where`; see `read_graph`. Without `check`, its ops must be valid."""
    if is_for_any_batch(value):
        if batch is None:
            raise ModelError(f"{where}: captured for any batch; choose one: --batch 32")
        check_batch(batch)
        return _graph(at_batch(value, batch), where, check)
    if batch is not None and batch != value.get("batch"):
        raise ModelError(
            f"{where}: captured for {str(value.get('batch'))[:20]} samples, so batch={batch} cannot be chosen; "
            "capture it for any batch: podsim capture … --input Bx3x224x224"
        )
    return _graph(value, where, check)


def _graph(value: dict[str, Any], where: str, check: bool) -> OpGraph:
    ops = value.get("ops")
    if not isinstance(ops, list) or not ops or not all(isinstance(op, dict) for op in ops):
        raise ModelError(f"{where}: ops must be a list of at least one op")
    checked = enumerate(ops if check else ())
    problems = [f"op {i}: {problem}" for i, op in checked for problem in _problems(op, len(ops))]
    if not isinstance(value.get("notes", []), list):
        problems.append(f"notes={str(value['notes'])[:40]} must be a list of texts")
    if not _number(value.get("table_weights", 0)):
        problems.append(f"table_weights={str(value['table_weights'])[:40]} must be a number, zero or more")
    for key in ("batch", "element"):
        if not _number(value.get(key)) or not value[key] > 0:
            problems.append(f"{key}={str(value.get(key))[:40]} must be a positive number")
    if problems:
        more = f"; and {len(problems) - 8} more" if len(problems) > 8 else ""
        raise ModelError(f"{where}: " + "; ".join(problems[:8]) + more)
    order = topological_order([op["before"] for op in ops], [str(op["name"]) for op in ops])
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    ops = [ops[i] for i in order]
    dims = np.zeros((len(ops), WIDTH), dtype=np.int64)  # [op, extent]
    for i, op in enumerate(ops):
        dims[i, : len(op.get("dims", ()))] = op.get("dims", ())
    return OpGraph(
        name=str(value.get("name", "")), source=str(value.get("source", "")), batch=int(value["batch"]),
        element=float(value["element"]), notes=tuple(str(note) for note in value.get("notes", ())),
        table_weights=float(value.get("table_weights", 0)),
        names=tuple(str(op["name"]) for op in ops), targets=tuple(str(op["op"]) for op in ops),
        shapes=tuple(tuple(op["shape"]) for op in ops), dims=dims,
        kind=np.array([KINDS.index(op["kind"]) for op in ops], dtype=np.int64),
        gradient=np.array([op.get("gradient", (False, False)) for op in ops], dtype=bool).reshape(-1, 2),
        first=np.cumsum([0, *(len(op["before"]) for op in ops)]).astype(np.int64),
        before=np.array([position[j] for op in ops for j in op["before"]], dtype=np.int64),
        carried=np.array([b for op in ops for b in op["carries"]], dtype=float), frozen=0.0,
        **{key: np.array([op.get(key, 0.0) for op in ops], dtype=float) for key in _NUMBERS},
    )  # fmt: skip


def _problems(op: dict[str, Any], ops: int) -> list[str]:
    """The problems of one op."""
    problems = []
    missing = [key for key in ("name", "op", "kind", "shape", "before", "carries") if key not in op]
    if missing:
        return [f"missing {', '.join(missing)}"]
    if op["kind"] not in KINDS:
        problems.append(unknown_name("kind", str(op["kind"]), KINDS))
    lists = {key: op[key] for key in ("shape", "before", "carries")}
    wrong = [
        key for key, item in lists.items() if not isinstance(item, list) or not all(_number(n) for n in item)
    ]
    if wrong:
        return [*problems, f"{', '.join(wrong)} must be lists of numbers, zero or more"]
    if any(not isinstance(n, int) or n >= ops for n in op["before"]):
        problems.append(f"before={str(op['before'])[:60]} must name ops, 0 to {ops - 1}")
    if len(op["before"]) != len(op["carries"]):
        problems.append(f"before has {len(op['before'])} entries, carries {len(op['carries'])}")
    needed = len(DIMS.get(str(op["kind"]), ()))
    dims = op.get("dims", [])
    if not isinstance(dims, list) or len(dims) != needed or not all(_number(n) and n == int(n) for n in dims):
        problems.append(f"dims={str(dims)[:60]} must be {needed} whole numbers")
    elif any(n < 1 for n in dims[:7]):
        problems.append(f"dims={dims} must be 1 or more")
    gradient = op.get("gradient", [False, False])
    if not isinstance(gradient, list) or len(gradient) != 2 or not all(isinstance(g, bool) for g in gradient):
        problems.append(f"gradient={str(gradient)[:40]} must be two of true and false")
    wrong = [key for key in _NUMBERS if not _number(op.get(key, 0))]
    if wrong:
        problems.append(f"{', '.join(wrong)} must be numbers, zero or more")
    return problems


def _number(value: Any) -> bool:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and 0 <= value < 2**62 and math.isfinite(value)
