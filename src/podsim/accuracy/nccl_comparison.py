"""A log of nccl-tests, as text or as the JSON of `-J FILE`, against what podsim predicts for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from podsim.accuracy.broken_fabric import judge_fabric
from podsim.accuracy.measured_runs import NotExpressible
from podsim.accuracy.nccl_tests import read_log_text
from podsim.accuracy.price_collectives import Call, call_seconds, decade, make_call, read_call
from podsim.accuracy.score import Priced, compare
from podsim.accuracy.tables import Row, Rows
from podsim.answers.comparison import Comparison
from podsim.errors import ClusterError, TableError
from podsim.foreign_files import finite, read_text
from podsim.hardware.cluster import Cluster
from podsim.hardware.machine_input import given_cluster
from podsim.network.collective_settings import CollectiveSettings
from podsim.network.nccl import choice
from podsim.network.settings_text import read_log_settings
from podsim.network.sizes import NCCL_NAMES, collective_name

_MOST = 64 << 20


def against_log(
    path: Path,
    *,
    on: str | Cluster = "",
    collective: str = "",
    settings: CollectiveSettings | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Comparison:
    """Comparison of predicted and measured seconds, row by row, classes by decade of size.

    on: the cluster that the log comes from; without it, the GPUs name the server, which suffices for one node.
    collective: for a log that does not name its own. settings: instead of what the log states. A fabric that measures far
    below its class is named as broken, with what would explain it. Raises TableError for a file that is no such log,
    ClusterError where the cluster is missing, does not hold the ranks or has broken links.
    """
    text = read_text(path, most=_MOST, error=TableError, is_lenient=True)
    rows = _rows(text, path, collective)
    cluster = given_cluster(on, overrides) if on else None
    if cluster is not None and cluster.faults:
        raise ClusterError(
            f"{cluster.name} has broken or slow links, of which NCCL's closed form knows nothing"
        )
    stated = (settings or CollectiveSettings()).over(read_log_settings(text))
    logged = {row.id: _call(row, cluster) for row in rows}
    calls = {id: replace(call, settings=stated.over(call.settings)) for id, call in logged.items()}
    seconds, failed = call_seconds(calls)
    if not seconds:
        raise ClusterError(next(iter(failed.values())))
    groups = {id: decade(call.size) for id, call in calls.items()}
    notes = {id: _picked(call) for id, call in calls.items() if id in seconds}
    compared = compare(rows, Priced(predictions=seconds, reasons=failed, notes=notes, groups=groups))
    verdict = judge_fabric(calls, {row.id: row.measured for row in compared.rows})
    return replace(
        compared, title=f"{path.name} on {next(iter(calls.values())).cluster.name}", fabric=verdict
    )


def _rows(text: str, path: Path, collective: str) -> Rows:
    if text.lstrip()[:1] in ("{", "["):
        text = json_as_log(text, path.name)
    if not collective:
        return read_log_text(text, path.stem)
    name = NCCL_NAMES.get(collective_name(collective), collective)
    return read_log_text(f"# {name}_perf\n{text}", path.stem)


def _call(row: Row, machine: Cluster | None) -> Call:
    """The row as a call on the cluster that it ran on."""
    call = read_call(row.fields)
    if machine is None:
        if isinstance(call, str):
            raise ClusterError(f"{row.id}: {call}; name the cluster with --on, such as --on dgx-a100-80gb:2")
        return call
    nodes, gpus = int(row.text("nodes")), int(row.text("gpus"))
    cluster = machine.subset(gpus) if nodes == 1 and gpus <= machine.gpus_per_node else machine
    if gpus > machine.gpus or gpus > nodes * machine.gpus_per_node:
        raise ClusterError(
            f"{row.id}: {gpus} ranks on {nodes} node{'s' * (nodes > 1)}; {machine.name} has {machine.nodes} of "
            f"{machine.gpus_per_node} GPUs"
        )
    try:
        return make_call(cluster, row.fields)
    except NotExpressible as problem:
        raise TableError(f"{row.id}: {problem}") from None


def _picked(call: Call) -> str:
    """What NCCL would run."""
    picked = choice(
        call.collective, call.size, call.cluster, ranks=call.gpus, ranks_per_node=-(-call.gpus // call.nodes),
        sharing=1, settings=call.settings,
    )  # fmt: skip
    return f"{picked.algorithm} {picked.protocol}, {picked.channels} channel{'s' * (picked.channels > 1)}"


def json_as_log(text: str, name: str) -> str:
    """The text that nccl-tests would have printed, as far as podsim reads it, from the JSON of its `-J FILE`.

    Read by what an object holds, as names of keys changed between versions: a result has a `size` and an object or keys
    with a time and two bandwidths; a rank has a host and a pid. Raises TableError for text that is no such JSON.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise TableError(f"{name}: not JSON: {str(problem)[:120]}") from None
    objects = list(_objects(document))
    lines = [f"# {word}" for word in _strings(document) if "_perf" in word or "nccl-library" in word]
    version = next((str(o[key]) for o in objects for key in ("nccl_version", "ncclVersion") if key in o), "")
    lines += [f"# NCCL version {version}"] if version else []
    lines += [
        line for rank, entry in enumerate(o for o in objects if _host(o)) for line in [_rank(entry, rank)]
    ]
    rows = [row for entry in objects if (row := _result(entry))]
    if not rows:
        raise TableError(
            f"{name}: no object of this JSON holds a size and a time, as those of nccl-tests -J do"
        )
    return "\n".join([*lines, *rows]) + "\n"


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    stack = [value]
    while stack:
        item = stack.pop(0)
        if isinstance(item, dict):
            yield item
        stack[:0] = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []


def _strings(value: Any) -> Iterator[str]:
    for entry in [value] if isinstance(value, dict) else []:
        for key, item in entry.items():
            for word in item if isinstance(item, list) else [item]:
                if isinstance(word, str):
                    yield f"{key} {word}"[:500]


def _host(entry: Mapping[str, Any]) -> str:
    return str(entry.get("hostname") or entry.get("host") or "") if "pid" in entry else ""


def _rank(entry: Mapping[str, Any], rank: int) -> str:
    device = entry.get("device_info") or entry.get("device_name") or entry.get("name") or "GPU"
    return f"#  Rank {rank} Group 0 Pid {int(finite(entry['pid']) or 0)} on {_host(entry)} device {rank} [0x00] {device}"


def _result(entry: Mapping[str, Any]) -> str:
    """The row of one result, or nothing."""
    inner = next(
        (entry[key] for key in ("out_of_place", "out-of-place") if isinstance(entry.get(key), dict)), entry
    )
    numbers = [_number(inner, words) for words in (("time",), ("alg",), ("bus",))]
    size = entry.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0 or not numbers[0]:
        return ""
    count, kind = entry.get("count", size // 4), entry.get("type", "float")
    rates = " ".join(str(number or 0.0) for number in numbers[1:])
    words = f"{int(finite(count) or 0)} {kind}"
    return f"{size} {words} {entry.get('redop', 'none')} {entry.get('root', -1)} {numbers[0]} {rates} 0"


def _number(inner: Mapping[str, Any], words: tuple[str, ...]) -> float | None:
    for key, value in inner.items():
        if key.lower().startswith(words):
            return finite(value)
    return None
