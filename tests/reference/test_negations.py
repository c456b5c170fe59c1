from __future__ import annotations

import random
from itertools import product

import pytest
from reference.curate_training import curated
from reference.negations import read_denials

FEATURES = (
    "FSDP", "ZeRO-3", "FULL_SHARD", "sequence parallelism", "SP", "activation recomputation", "selective recompute",
    "activation checkpointing", "fp8", "MXFP8", "MTP", "multi-token prediction", "LoRA", "interleaved",
    "token drop", "distributed optimizer", "CPU offloading", "context parallelism",
)  # fmt: skip
SPELLINGS = (
    "no {}", "without {}", "w/o {}", "{}=0", "{}=off", "{}=None", "{}=False", "{}: no", "{}: off", "{}: none", "{} = 0",
    "{} off", "{} disabled", "{} not used", "not {}", "{} is off", "{} unused", "NO {}", "{}: disabled", "{}=no",
)  # fmt: skip
COLUMNS = (
    "model", "gpu", "node_type", "interconnect", "zero_stage_or_fsdp", "seq_parallel", "recompute", "precision",
    "framework", "notes", "source",
)  # fmt: skip
JOINS = ("{}, {}", "{} ({})", "{}; {}", "{} + {}")
READ = ("network", "cluster", "plan", "chosen", "implied", "reason")
PLAIN = {
    "id": "1", "source": "a report", "year": "2025", "model": "GPT-20B", "params_b": "", "layers": "44", "hidden": "6144",
    "ffn_hidden": "24576", "heads": "64", "kv_heads": "", "vocab": "51200", "seq_len": "2048", "gpu": "H100-SXM5",
    "gpu_mem_gb": "80", "n_gpus": "64", "node_type": "DGX H100", "interconnect": "8x400Gb/s NDR IB", "tp": "8", "pp": "2",
    "virtual_pp": "1", "dp": "4", "cp": "1", "ep": "1", "zero_stage_or_fsdp": "none", "seq_parallel": "no",
    "recompute": "none", "micro_batch": "1", "global_batch": "64", "precision": "bf16", "framework": "Megatron-LM",
    "step_time_s": "2", "notes": "",
}  # fmt: skip


def read(row: dict[str, str]) -> list[str]:
    return [curated([row])[0][column] for column in READ]


def test_a_denial_in_any_column_is_the_row_without_the_feature() -> None:
    plain = read(PLAIN)
    assert plain[2]
    assert not plain[-1]
    cases = list(product(FEATURES, SPELLINGS, COLUMNS, JOINS))
    rows = []
    for case, (feature, spelling, column, join) in enumerate(random.Random(34).sample(cases, 1000)):
        cell, denial = PLAIN[column], spelling.format(feature)
        rows.append({**PLAIN, "id": str(case), column: join.format(cell, denial) if cell else denial})
    for row, found in zip(rows, curated(rows), strict=True):
        changed = {column: row[column] for column in COLUMNS if row[column] != PLAIN[column]}
        assert [found[column] for column in READ] == plain, changed


@pytest.mark.parametrize("word", ["no", "none", "off", "0", "None", "False", "without", "not used"])
@pytest.mark.parametrize(
    "column", ["zero_stage_or_fsdp", "seq_parallel", "recompute", "virtual_pp", "cp", "ep"]
)
def test_a_bare_denial_is_none_of_its_column(column: str, word: str) -> None:
    assert read({**PLAIN, column: word}) == read(PLAIN)


@pytest.mark.parametrize("cell", ["FSDP=0", "no FSDP", "FSDP off", "FSDP: none"])
def test_who_denies_fsdp_may_divide_the_optimizer(cell: str) -> None:
    beside = read({**PLAIN, "zero_stage_or_fsdp": f"distributed optimizer, {cell}"})
    assert beside == read({**PLAIN, "zero_stage_or_fsdp": "distributed optimizer"}) != read(PLAIN)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"zero_stage_or_fsdp": "FSDP"}, "zero=3"),
        ({"notes": "async TP"}, "overlap_tp=true"),
        ({"framework": "Megatron-LM without FlashAttention"}, "flash=false"),
        ({"framework": "Megatron-LM", "notes": "FlashAttention off"}, "flash=false"),
        ({"framework": "DeepSpeed+Megatron-LM"}, "software=megatron-deepspeed"),
        ({"framework": "Megatron-LM + DeepSpeed v0.9"}, "software=megatron-deepspeed"),
        ({"recompute": "selective"}, "recompute=selective"),
    ],
)
def test_what_a_row_affirms_is_read(cells: dict[str, str], said: str) -> None:
    assert said in read({**PLAIN, **cells})[2]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"notes": "LoRA fine-tuning"}, "train=lora"),
        ({"framework": "Megatron-LM (LoRA r=32)"}, "train=lora:32"),
        ({"model": "GPT-20B LoRA"}, "train=lora"),
    ],
)
def test_adapters_in_a_remark_are_fine_tuning(cells: dict[str, str], said: str) -> None:
    assert said in read({**PLAIN, **cells})[0].split()


def test_a_name_keeps_no_remark() -> None:
    row = {**PLAIN, "layers": "", "tp": "1", "pp": "1", "dp": "64", "ep": "8"}
    plain = read({**row, "model": "Mixtral 8x7B"})
    assert plain[0] == "Mixtral-8x7B sequence=2048"
    for remark in ("dropless", "w/o MTP", "no token drop"):
        assert read({**row, "model": f"Mixtral 8x7B ({remark})"}) == plain
    for remark in ("with MTP", "MTP=1", "mtp_num_layers=1", "w/ MTP"):
        assert read({**row, "model": f"Mixtral 8x7B ({remark})"})[0] == f"{plain[0]} mtp=1"
    dropping = read({**row, "model": "Mixtral 8x7B (tokendrop)"})
    assert dropping[0] == plain[0]
    assert "capacity_factor=1.0" in dropping[2]


@pytest.mark.parametrize(
    ("text", "affirmed", "denied"),
    [
        (
            "full (use_checkpoint=true in matching config)",
            "full (use_checkpoint=true in matching config)",
            "",
        ),
        ("fp16/bf16 mixed (not stated)", "fp16/bf16 mixed (not stated)", ""),
        ("tp=8 FSDP=0 pp=2", "tp=8 pp=2", "FSDP"),
        ("bf16, fp8 = false", "bf16", "fp8"),
        ("dropout=0.1", "dropout=0.1", ""),
        ("No. 5 of the table", "No. 5 of the table", ""),
        ("Megatron-LM without FlashAttention", "Megatron-LM", "FlashAttention"),
    ],
)
def test_a_text_is_what_it_affirms_and_what_it_denies(text: str, affirmed: str, denied: str) -> None:
    assert read_denials(text) == (affirmed, denied)


def test_a_row_of_a_model_that_was_trained_with_mtp_says_what_it_costs() -> None:
    row = {
        **PLAIN,
        "layers": "",
        "tp": "1",
        "pp": "1",
        "dp": "64",
        "ep": "8",
        "n_gpus": "512",
        "global_batch": "512",
    }
    row |= {"dp": "512", "ep": "64", "model": "deepseek-v3"}
    said = "assumed: no multi-token prediction, with which a step takes +"
    assert said in read(row)[4]
    for stated in ("deepseek-v3 (w/o MTP)", "deepseek-v3 (MTP=1)"):
        assert said not in read({**row, "model": stated})[4]
    assert read({**row, "model": "deepseek-v3 (MTP=1)"})[0].endswith(" mtp=1")
    assert said not in read({**row, "model": "Mixtral 8x7B", "ep": "8"})[4]
