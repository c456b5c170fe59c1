"""Published training runs on TPUs -> the packaged table: python -m reference.curate_tpu [--check].

Rows of published/tpu_training.csv in their sources' words get canonical columns. MaxText logs FLOP/s, not seconds: its
count of a step (6 x matrix parameters and logits, and attention without the causal half until mid-2025) over the logged
rate is the step time. A row without a batch gets the fastest micro-batch of its sharding, and `chosen` says so.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from podsim.accuracy.measured_runs import NotExpressible, read_model, read_training_run, write_settings
from podsim.accuracy.table_columns import KINDS
from podsim.errors import PodsimError
from podsim.hardware.catalog import load_gpu
from podsim.training.batch import step_cost
from reference.csv_rows import each_row
from reference.machine_words import model_settings
from reference.negations import plain_degrees, read_denials

HERE = Path(__file__).parent
TARGET = HERE.parent / "src" / "podsim" / "accuracy" / "tables" / "tpu.csv.gz"
COLUMNS = tuple(next(kind for kind in KINDS if kind.name == "llm").columns)
_WINDOWS = ",".join(["1024,1024,1024,1024,1024,0"] * 8)
_GATED = "llama-2-7b vocab=32000 head_dim=128"
NETWORKS = {
    "maxtext-22b": "gpt-22b position=rope tied=true head_dim=256",
    "maxtext-52b": "gpt-22b position=rope tied=true head_dim=256",
    **{f"maxtext-gps-{size}b": _GATED for size in (16, 32, 64, 128, 256)},
    "gpt3-175b": "gpt3-175b",
    "llama2-70b": "llama-2-70b",
    "llama3.1-70b": "llama-3.1-70b",
    "llama3.1-8b": "llama-3.1-8b",
    "mistral-7b": "mistral-7b",
    "mixtral-8x7b": "mixtral-8x7b",
    "mixtral-8x22b": "mixtral-8x22b",
    "gemma3-12b": f"llama-2-7b head_dim=256 windows={_WINDOWS} tied=true vocab=262208",
    "llama4-scout-17b-16e": "mixtral-8x7b head_dim=128 expert_ffn=8192 experts=16 top_k=1 shared_experts=1 vocab=202048",
    "bert-large": "bert-large",
    "deepseek3-671b": "deepseek-v3",
}
"""What podsim runs for each model; dimensions that the row states follow."""
_SHAPED = ("maxtext-", "gemma3", "llama4")
_RECOMPUTED = {"full": "full", "minimal": "selective", "": "full"}
"""MaxText's policies; `minimal` keeps products. Lists of names that are kept or offloaded (custom, qkv_proj_offloaded)
recompute the rest, so they count as full."""
_MICRO = (1, 2, 3, 4, 6, 8)
_CHIPS = (
    (r"7x|ironwood", "tpu7x"), (r"v6e|trillium", "tpu-v6e"), (r"v5p", "tpu-v5p"), (r"v5e|v5 ?lite", "tpu-v5e"),
    (r"v4", "tpu-v4"), (r"v3", "tpu-v3"), (r"v2", "tpu-v2"),
)  # fmt: skip
"""What sources call a chip -> its name in the catalog."""
_FLAT, _FLAT_POD = ("tpu-v5e", "tpu-v6e"), 256
"""chips with a torus of two dimensions, and those of a pod"""
_SPLITS = (1, 2, 4, 8, 16, 32)


def named_row(row: Mapping[str, str]) -> dict[str, str]:
    """The row with the catalog's names of its chip and model; a split that only the batch needs is `chosen`."""
    text = row["gpu"].lower()
    chip = next((name for words, name in _CHIPS if re.search(words, text)), row["gpu"])
    plain = re.sub(r"[\s_]+", "-", row["model"].strip().lower())
    near = {name.replace("-", ""): name for name in NETWORKS}
    made = {**row, "gpu": chip, "model": near.get(plain.replace("-", ""), row["model"])}
    if (
        row["global_batch"]
        and made["model"] != "bert-large"
        and not re.fullmatch(r"[2-9]|\d{2,}", row["tp"] or "")
    ):
        chips, batch = int(float(row["n_gpus"])), int(float(row["global_batch"]))
        split = next((tp for tp in _SPLITS if chips % tp == 0 and batch % (chips // tp) == 0), 1)
        made |= {"tp": str(split), "chosen": "the tensor split"} if split > 1 else {}
    return made


def network_of(row: Mapping[str, str]) -> str:
    """The network of a row; NotExpressible for a model that podsim does not know."""
    if not row["seq_len"]:
        raise NotExpressible("seq_len is not given")
    if row["model"] not in NETWORKS:
        try:
            return model_settings(row)
        except (PodsimError, NotExpressible) as problem:
            raise NotExpressible(
                f"{row['model']}: the source states no dimensions that podsim can run: {problem}"
            ) from None
    sizes = ""
    if row["model"].startswith(_SHAPED):
        names = {
            "layers": "layers",
            "hidden": "hidden",
            "ffn_hidden": "ffn",
            "heads": "heads",
            "kv_heads": "kv_heads",
        }
        sizes = " " + " ".join(f"{name}={row[column]}" for column, name in names.items() if row[column])
    return f"{NETWORKS[row['model']]}{sizes} sequence={row['seq_len']}"


def cluster_of(row: Mapping[str, str]) -> tuple[str, int]:
    """(cluster, slices) of a row's topology."""
    text, gpu, chips = row["chip_topology"], row["gpu"], int(float(row["n_gpus"]))
    if gpu == "tpu-v3" and chips == 4096:  # the pods of MLPerf v0.7 were one mesh (arXiv 2011.03641)
        return "tpu-v3:32x128", 1
    slices = int(found[1]) if (found := re.match(r"(\d+)x (?!\d+ x)", text)) else 1
    if not text and gpu in _FLAT and chips > _FLAT_POD:
        slices = chips // _FLAT_POD
    shape = re.search(r"\b(\d+x\d+(?:x\d+)?)\b", text.removeprefix(f"{slices}x "))
    each = shape[1] if shape else str(chips // slices)
    return f"{f'{slices}x ' * (slices > 1)}{gpu}:{each}", slices


def plan_of(row: Mapping[str, str], slices: int, micro: int) -> dict[str, object]:
    """The settings of a row's plan."""
    chips, tp = int(row["n_gpus"]), int(row["tp"] or 1)
    ep = int(found[1]) if (found := re.search(r"EP (\d+)", row["zero_stage_or_fsdp"])) else 1
    replicas = chips // tp
    if row["model"] == "bert-large":
        batch = {"micro_batch": micro, "global_batch": micro * replicas, "zero": 1, "recompute": "none"}
        return {"dp": replicas, **batch, "sequence": 512, "software": "maxtext"}
    if replicas % slices:
        raise NotExpressible(f"{chips} chips do not divide over {slices} slices")
    return {
        "dp": replicas, "ep": ep, "global_batch": micro * replicas, "micro_batch": micro,
        "recompute": _RECOMPUTED.get(row["recompute"], "full"), "sequence": row["seq_len"],
        "sequence_parallel": str(tp > 1).lower(), "shard": replicas // slices if slices > 1 else 0,
        "overlap_tp": str(tp > 1).lower(), "software": "maxtext", "tp": tp, "zero": 3,
    }  # fmt: skip


def micro_batch_of(row: Mapping[str, str]) -> int:
    """Sequences of a replica; 0 where the source states no batch."""
    if not row["global_batch"]:
        return 0
    micro, rest = divmod(int(row["global_batch"]), int(row["n_gpus"]) // int(row["tp"] or 1))
    if rest or not micro:
        raise NotExpressible(
            f"{row['global_batch']} sequences over {row['n_gpus']} chips: the source does not say how the model was split"
        )
    return micro


def logged_flops(row: Mapping[str, str], tokens: float, network: str) -> float:
    """FLOPs of a step as MaxText counted them until mid-2025, all query-key pairs in full; those of a catalog's model."""
    if not (row["hidden"] and row["ffn_hidden"] and row["layers"]):
        return 3 * tokens * sum(read_model(network).forward_flops(int(row["seq_len"])).values())
    hidden, ffn, heads, kv = (float(row[name]) for name in ("hidden", "ffn_hidden", "heads", "kv_heads"))
    head = 256.0 if row["model"] in ("maxtext-22b", "maxtext-52b") else 128.0
    gated = 2.0 if row["model"] in ("maxtext-22b", "maxtext-52b") else 3.0
    expert = float(row["moe_topk"] or 1)
    layer = gated * hidden * ffn * expert + hidden * head * (2 * heads + 2 * kv)
    weights = float(row["layers"]) * layer + hidden * float(row["vocab"])
    attention = float(row["layers"]) * 4 * float(row["seq_len"]) * heads * head
    return 3 * tokens * (2 * weights + attention)


def canonical(row: Mapping[str, str]) -> dict[str, str]:
    """The shipped cells of a row."""
    row = named_row({**dict.fromkeys((*COLUMNS, "chip_topology"), ""), **plain_degrees(row)})
    cells = {**{name: row[name] for name in COLUMNS}, "tables": "tpu"}
    try:
        precision = _read_precision(read_denials(row["precision"]).affirmed, row["gpu"])
        network, (cluster, slices) = network_of(row), cluster_of(row)
        micro = micro_batch_of(row)
        cells |= {"network": network, "cluster": cluster}
        cells |= _planned(cells, row, slices, (micro,) if micro else _MICRO, precision)
        if not micro:
            cells["chosen"] = "the micro-batch"
    except (PodsimError, NotExpressible) as problem:
        return cells | {"network": "", "cluster": "", "plan": "", "reason": str(problem)}
    if row["tflops_per_gpu"] and not (row["step_time_s"] or row["tokens_per_s_per_gpu"]):
        tokens = float(cells["global_batch"]) * float(row["seq_len"])
        seconds = logged_flops(row, tokens, network) / (
            float(row["tflops_per_gpu"]) * 1e12 * float(row["n_gpus"])
        )
        cells["step_time_s"] = f"{seconds:.5g}"
    return cells


def _read_precision(text: str, chip: str) -> str:
    """bf16, in which accumulators and weights may be fp32, "" too; or fp8 where the chip has it, else NotExpressible."""
    if "int8" in text.lower():
        raise NotExpressible(f"precision {text}: training in int8 (AQT) is not modelled")
    if re.search(r"fp8|float8", text, re.IGNORECASE) and "fp8" in load_gpu(chip).peaks:
        return "fp8"
    if text and not re.search(r"bf16|bfloat16", text, re.IGNORECASE):
        raise NotExpressible(f"precision {text}: runs on {chip} are modelled in bf16")
    return "bf16"


def _planned(
    cells: dict[str, str], row: Mapping[str, str], slices: int, sizes: tuple[int, ...], precision: str
) -> dict[str, str]:
    """The plan of a row, of all micro-batches the one with the most tokens a second that fits the memory."""
    best, plans = 0.0, dict[str, str]()
    for micro in sizes:
        settings = plan_of(row, slices, micro) | ({} if precision == "bf16" else {"precision": precision})
        plan = {
            "plan": write_settings("", dict(sorted(settings.items()))),
            "global_batch": str(settings["global_batch"]),
        }
        run = read_training_run({**cells, **plan})
        cost = step_cost(run.model, run.cluster, run.plan)
        rate = micro / cost.seconds.item() if len(sizes) > 1 else 1.0
        fits = len(sizes) == 1 or cost.memory.item() <= run.cluster.gpu.memory
        if not plans or (fits and rate > best):
            best, plans = rate * fits, plan
    return plans


def curated(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The canonical rows of rows of tpu_training."""
    return each_row(rows, [column for column in COLUMNS if column != "tables"], canonical)


def table_bytes() -> bytes:
    """The packaged table, compressed."""
    with (HERE / "published" / "tpu_training.csv").open(encoding="utf-8", newline="") as file:
        rows = [canonical(row) for row in csv.DictReader(file)]
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return gzip.compress(out.getvalue().encode(), mtime=0)


def main() -> int:
    """Write the table, or with --check compare it."""
    data = table_bytes()
    if "--check" in sys.argv[1:]:
        same = TARGET.is_file() and gzip.decompress(TARGET.read_bytes()) == gzip.decompress(data)
        return 0 if same else 1
    TARGET.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
