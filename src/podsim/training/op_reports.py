"""Every op of a model under a plan: seconds, share of the roofline, and where its speed comes from."""

from __future__ import annotations

from podsim.answers.prediction import OpReport
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.kernels.gemm import gemm_source, peak_of
from podsim.training.layers import items_of, op_times
from podsim.training.plan import Plan
from podsim.training.shapes import (
    Item,
    element_bytes,
    gemm_shapes,
    is_gemm,
    relative_traffic,
    split_ranks,
    tokens,
)
from podsim.training.software import Software, load_software
from podsim.workload.model import Model


def op_reports(model: Model, cluster: Cluster, plan: Plan) -> tuple[OpReport, ...]:
    """One row an op, in the order of the model, for one micro-batch on one rank of a scalar plan."""
    software = load_software(plan.software, cluster.gpu, plan.precision)
    arrays = plan.arrays()
    order = {id(item.op): position for position, item in enumerate(items_of(model)[0])}
    reports = []
    for items, _, times in op_times(model, cluster, arrays, software):
        for position, item in enumerate(items):
            seconds = float(times.forward[position, 0])
            back = float(times.backward[position, 0])
            reports.append(
                (order[id(item.op)], _report(item, cluster, arrays, model, software, seconds, back))
            )
    return tuple(report for _, report in sorted(reports, key=lambda pair: pair[0]))


def _report(
    item: Item,
    cluster: Cluster,
    plan: Plan,
    model: Model,
    software: Software,
    forward: float,
    backward: float,
) -> OpReport:
    op, gpu = item.op, cluster.gpu
    length = plan.length(model)
    precision = plan.precision
    element = element_bytes(plan.precision)
    count = float(tokens(plan, length)[0])
    flops, moved, source, shape = 0.0, 0.0, "roofline", ""
    if is_gemm(op):
        m, n, k, batch = (float(a[0, 0]) for a in gemm_shapes([item], plan, length, software))
        flops, moved = (
            2 * m * n * k * batch,
            batch * (m * k + k * n + m * n) * PRECISIONS[plan.precision].bytes,
        )
        source = gemm_source(gpu, m, n, k, precision)
        shape = f"{m:.0f}x{n:.0f}x{k:.0f}" + (f" x{batch:.0f}" if batch > 1 else "")
    elif op.kind == "attention":
        heads = max(op.heads / float(plan.tp[0]), 1.0)  # type: ignore[index]
        share = 0.5 if op.causal else 1.0
        flops = 2 * count * heads * length * (op.head_dim + op.value_dim) * share
        moved = count * heads * (2 * op.head_dim + 2 * op.value_dim) * element
        source, shape = "law", f"{heads:.0f} heads x {length} x {op.head_dim}"
    else:
        ranks = float(split_ranks(plan, op.split)[0])
        moved = count / ranks * (op.read + op.write) * element
        shape = f"{moved * relative_traffic(op, software) / 1e6:.1f} MB"
    arithmetic, memory = flops / peak_of(gpu, precision), moved / gpu.memory_bandwidth
    light = max(arithmetic, memory) / forward if forward > 0 else 0.0
    return OpReport(
        block=item.block.name,
        name=op.name,
        kind=op.kind,
        copies=item.block.count,
        forward=forward,
        backward=backward,
        light=light,
        bound="arithmetic" if arithmetic >= memory else "memory",
        source=source,
        shape=shape,
    )
