"""The cells of a row in its source's words: numbers as plain digits, and what is wrong with the others.

Types of cells: count (a whole number from 1), positive (a number above 0), amount (a number from 0), unit (of a rate, or
h, ms). Other columns are text. A blank cell says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from podsim.accuracy.measured_runs import NotExpressible
from podsim.accuracy.reading import read_number
from podsim.accuracy.table_columns import is_blank
from reference.cell_words import RATE_EXAMPLES, read_rate_unit

TYPES = {
    "llm": """
        count: year layers hidden ffn_hidden heads kv_heads vocab seq_len moe_experts moe_topk n_gpus tp pp virtual_pp dp
        count: cp ep micro_batch global_batch
        positive: params_b gpu_mem_gb step_time_s tokens_per_s tokens_per_s_per_gpu tflops_per_gpu mfu hfu memory_gb
        amount: dec_layers dec_seq_len
    """,
    "vision": """
        count: n_gpus
        positive: throughput latency_ms time_to_train_h
        unit: unit
    """,
    "mlperf": """
        count: n_nodes accel_per_node n_accelerators global_batch grad_accum seq_len n_runs
        amount: n_logs_parsed n_success eval_s_mean
        positive: batch_per_accel minutes_score minutes_min minutes_max accel_hours converge_mean throughput_samples_s
        positive: throughput_per_accel throughput_logged median_step_s median_epoch_s
    """,
}
"""Kind of table -> the lines of "type: column column …" of its raw cells."""
_OTHER_UNITS = ("h", "ms")


def settled(row: Mapping[str, str], kind: str) -> dict[str, str]:
    """The cells of a row of a kind of TYPES, numbers as digits; NotExpressible with every cell that breaks its rule."""
    cells, wrong = dict(row), []
    for line in TYPES[kind].strip().splitlines():
        cell_type, _, columns = line.strip().partition(":")
        for column in columns.split():
            cell = row.get(column, "")
            if is_blank(cell):
                cells[column] = ""
            elif rule := _broken_rule(cell, cell_type):
                wrong.append(f"{column}={cell[:40]!r} {rule}")
            elif cell_type != "unit" and not _is_plain(cell):
                cells[column] = f"{read_number(cell) or 0.0:.12g}"
    if cells.get("throughput") and read_rate_unit(cells["unit"]) is None:
        wrong.append(
            f"throughput needs a rate as its unit, not {row['unit'][:40]!r}: such as {RATE_EXAMPLES}"
        )
    if wrong:
        raise NotExpressible("; ".join(wrong))
    return cells


def _is_plain(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _broken_rule(cell: str, cell_type: str) -> str:
    """The rule that a cell breaks, "" if none."""
    if cell_type == "unit":
        known = cell in _OTHER_UNITS or read_rate_unit(cell)
        return "" if known else f"is no known unit: such as {RATE_EXAMPLES}, h, ms"
    value = read_number(cell)
    if value is None or not math.isfinite(value):
        return "is not a finite number"
    if cell_type == "amount":
        return "is negative" if value < 0 else ""
    if cell_type == "count" and not value.is_integer():
        return "must be a whole number"
    return "must be greater than 0" if value <= 0 else ""
