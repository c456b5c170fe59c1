"""Public training runs: against llm-analysis, in time and error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from peer import about, ask, installed, seconds_of

from podsim.accuracy.measured_runs import TrainingRun
from podsim.accuracy.price_llm import training_runs
from podsim.accuracy.pricing import compare_rows
from podsim.accuracy.tables import Row, load
from podsim.training.predict import predict_plan

TABLES = ("korthikanti", "sc21-table1", "vtrain-single", "vtrain-multi", "llm-foundry-a100")
MEMORY = "memory-korthikanti"
SHARES = np.arange(0.02, 1.0, 0.005)
"""The shares of the peak among which llm-analysis gets the best."""


def _given(row: Row, run: TrainingRun) -> dict[str, object]:
    """The arguments of llm-analysis for a row."""
    plan, cells = run.plan, row.integer
    return {
        "model": {
            "name": row.id, "num_layers": cells("layers"), "n_head": cells("heads"), "vocab_size": run.model.vocab,
            "num_key_value_heads": cells("kv_heads"), "hidden_dim": cells("hidden"),
            "ffn_embed_dim": cells("ffn_hidden"), "max_seq_len": run.model.sequence,
        },
        "parallel": {
            "tp_size": int(plan.tp), "pp_size": int(plan.pp), "dp_size": int(plan.dp),
            "sp_size": int(plan.tp) if plan.sequence_parallel else 1,
        },
        "training": {
            "batch_size_per_gpu": int(plan.micro_batch), "global_batch_size": int(plan.global_batch),
            "seq_len": run.model.sequence, "flash_attn": bool(plan.flash),
        },
        "recompute": min(int(plan.recompute), 2), "zero": int(plan.zero),
    }  # fmt: skip


def against_llm_analysis(work: Path) -> str:
    """The part of the report on llm-analysis."""
    python, version = installed(work, "llm-analysis")
    lines, clocks = [], []
    for name in (*TABLES, MEMORY):
        table = load(name)
        known = {row.id: row for row in compare_rows(table).rows}
        runs, _ = training_runs([row.fields for row in table])
        used = [
            (known[row.id], row, run)
            for row, run in ((table.rows[i], run) for i, run in runs)
            if row.id in known
        ]
        answer = ask(python, "llm_analysis_rows.py", [_given(row, run) for _, row, run in used])
        measured, own = np.array([(row.measured, row.predicted) for row, _, _ in used]).T
        test, share = np.array([row.role == "test" for row, _, _ in used]), 1.0
        theirs = np.array(answer["memory" if name == MEMORY else "steps"])
        if name != MEMORY:
            share = min(SHARES, key=lambda share: np.abs(theirs / share / measured - 1)[~test].mean())
        errors = [values[test] / measured[test] - 1 for values in (theirs / share, own)]
        cells = [f"{np.abs(error).mean():.1%}" for error in errors]
        cells += [f"{error.mean():+.1%}" for error in errors]
        lines.append(
            f"| `{name}` | {test.sum()} | {' | '.join(cells)} | {'-' if name == MEMORY else f'{share:.3g}'} |\n"
        )
        run = used[0][2]
        clocks.append((answer["seconds"], seconds_of(predict_plan, run.model, run.cluster, run.plan)))
    theirs, own = np.median(clocks, axis=0)
    head = about("llm-analysis", version=version, theirs=1e3 * theirs, own=1e3 * own, ratio=theirs / own)
    return head + "".join(lines)
