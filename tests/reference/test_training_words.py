from __future__ import annotations

from pathlib import Path

import pytest
from reference.csv_rows import csv_text, read_csv
from reference.curate_training import curated, training_run

from podsim.accuracy.calibrate_software import fit_software
from podsim.accuracy.measured_runs import NotExpressible
from podsim.accuracy.price_llm import price_llm
from podsim.accuracy.reading import read_rows
from podsim.accuracy.tables import training_rows
from podsim.workload.catalog import load_model

ROWS = {row["id"]: row for row in training_rows()}
CANONICAL = ("network", "cluster", "plan", "chosen", "implied", "reason")


def own(id: str) -> dict[str, str]:
    """A packaged row as a user would write it: nothing worked out yet."""
    cells = {column: cell for column, cell in ROWS[id].items() if column not in CANONICAL}
    return {**cells, "framework": training_run(ROWS[id]).plan.software} if ROWS[id]["plan"] else cells


OPEN = own("MLMH100-0005")  # states tp, pp, dp and the batch


def test_a_row_without_a_micro_batch_gets_the_fastest_plan_that_it_allows() -> None:
    from podsim.training.batch import step_cost

    found = training_run(OPEN)
    assert (found.plan.tp, found.plan.pp, found.plan.dp, found.plan.global_batch) == (8, 2, 48, 384)
    assert found.chosen.startswith("chosen: micro_batch=")
    best = step_cost(found.model, found.cluster, found.plan)
    assert best.memory.item() <= found.cluster.gpu.memory
    others = []
    for change in (
        {"micro_batch": 1},
        {"micro_batch": 2},
        {"virtual_stages": 3},
        {"zero": 0},
        {"recompute": 2},
    ):
        plan = found.plan.having(change)
        cost = step_cost(found.model, found.cluster, plan)
        if plan.describe() != found.plan.describe() and cost.memory.item() <= found.cluster.gpu.memory:
            others.append(cost.seconds.item())
    assert len(others) > 2
    assert best.seconds.item() <= min(others)


def test_what_an_open_row_states_stays() -> None:
    stated = {"recompute": "full", "virtual_pp": "3", "seq_parallel": "no", "zero_stage_or_fsdp": "ZeRO-1"}
    plan = training_run({**OPEN, **stated}).plan.describe()
    assert plan["recompute"] == "full"
    assert plan["recompute_layers"] == 0
    assert (plan["virtual_stages"], plan["sequence_parallel"], plan["zero"]) == (3, False, 1)


def test_an_open_row_takes_nothing_that_its_framework_lacks() -> None:
    plan = training_run({**own("MLM21JAN-0008"), "framework": "megatron-2020"}).plan.describe()
    assert plan["recompute"] == "full"
    assert (plan["sequence_parallel"], plan["zero"], plan["flash"], plan["virtual_stages"]) == (
        False,
        0,
        False,
        1,
    )


def test_an_open_row_that_fits_nowhere_says_what_it_needs() -> None:
    with pytest.raises(
        NotExpressible, match=r"micro_batch is not given, and no plan .* fits: .* of 77.31 GB"
    ):
        training_run({**own("MLM21JAN-0008"), "framework": "megatron-2020", "layers": "1800", "params_b": ""})


def test_a_line_of_ones_own_names_a_model_and_software() -> None:
    line = {
        "model": "llama-3-8b", "seq_len": "8192", "gpu": "h100-sxm5-80gb", "n_gpus": "64", "global_batch": "512",
        "precision": "bf16", "framework": "Torchtitan-2024-compile", "step_time_s": "6",
    }  # fmt: skip
    found = training_run(line)
    assert (found.plan.software, found.plan.gpus, found.model.layer_count) == (
        "torchtitan-2024-compile",
        64,
        32,
    )
    assert found.chosen.startswith("chosen: tp=1, pp=1, dp=64, micro_batch=")


def test_a_rate_without_a_batch_is_of_the_default_batch() -> None:
    rate = {**OPEN, "global_batch": "", "dp": "48"}
    found = training_run(rate)
    assert found.plan.global_batch == 1056  # 4 Mi tokens are 1024 sequences of 4096; 22 for each of 48
    assert found.chosen.startswith("chosen: global_batch=1056, micro_batch=")
    given = training_run(
        {**rate, "tp": "8", "pp": "4", "n_gpus": "1536", "seq_parallel": "yes", "micro_batch": "1"}
    )
    assert given.chosen == "chosen: global_batch=1056"
    with pytest.raises(NotExpressible, match="global_batch is not given"):
        training_run({**rate, "step_time_s": "2.5"})


def test_a_fit_takes_no_row_of_which_podsim_chose_a_setting() -> None:
    unstated = {**own("NEMO-0007"), "id": "OPEN", "micro_batch": ""}
    assert training_run(unstated).chosen
    _, _, used = fit_software(
        [*ROWS.values(), *curated([{**unstated, "plan": ""}])], "nemo-2022", ["gemm_speed"]
    )
    assert "NEMO-0007" in used
    assert "OPEN" not in used


@pytest.mark.parametrize(
    ("text", "name", "layers"),
    [
        ("llama3-70b (12 layers)", "llama-3-70b", 12),
        ("DeepSeek-V2 236B (4 layers)", "deepseek-v2", 4),
        ("gpt3-175b", "gpt3-175b", 96),
    ],
)
def test_a_model_without_dimensions_is_looked_up(text: str, name: str, layers: int) -> None:
    row = {**own("SIMU-0003"), "model": text, "n_gpus": "512", "dp": "", "global_batch": "1024"}
    assert training_run(row).model == load_model(name, {"layers": layers, "sequence": 4096})


@pytest.mark.parametrize(
    "text", ["", "llama3-70b twelve layers", "../secret/config.json", "no-such-model (3 layers)"]
)
def test_a_model_that_nothing_knows_is_said(text: str) -> None:
    with pytest.raises(NotExpressible, match="layers is not given, and model="):
        training_run({**own("SIMU-0003"), "model": text})


@pytest.mark.parametrize(
    ("gpu", "system", "memory", "node"),
    [
        ("A100-SXM4", "DGX A100", "40", "dgx-a100-40gb"),
        ("A100-SXM4", "", "", "dgx-a100-80gb"),
        ("a100-sxm4-80gb", "p4de.24xlarge", "", "aws-p4de"),
        ("A100-SXM4-40GB", "Azure ND96asr_v4", "", "azure-ndv4-40gb"),
        ("A100 (paper: A100-SXM4-40GB)", "", "", "dgx-a100-40gb"),
        ("A100-SXM4 (40 or 80GB not stated)", "", "", "dgx-a100-80gb"),
        ("A100-PCIe", "", "40", "a100-pcie-40gb-server"),
        ("NVIDIA V100-SXM3-32GB (450W)", "dgx2h_n4", "", "dgx-2h"),
        ("V100-32GB", "DGX-2", "", "dgx-2"),
        ("V100", "", "", "dgx-1-v100-16gb"),
        ("h100-sxm5-96gb-hbm2e", "", "", "grand-teton-h100-96gb"),
        ("H100 80GB HBM3", "", "80", "dgx-h100"),
        ("H20", "", "96", "hgx-h20"),
        ("A100_40GB_PCIe", "", "", "a100-pcie-40gb-server"),
        ("8x A100 40GB", "", "", "dgx-a100-40gb"),
        ("NVIDIA A100-SXM-80GB", "", "", "dgx-a100-80gb"),
        ("40GB_A100_SXM4", "", "", "dgx-a100-40gb"),
        ("A100 SXM4 40G", "", "", "dgx-a100-40gb"),
        ("A100-PCIE-80GB", "R750xa x4", "", "a100-pcie-server"),
        ("NVIDIA A100", "DGX A100 40GB", "", "dgx-a100-40gb"),
        ("Tesla V100-SXM2-32GB", "", "", "dgx-1-v100-32gb"),
        ("H100-PCIe", "", "80", "h100-pcie-80gb-server"),
        ("H100 NVL", "", "94", None),
        ("4x RTX A6000", "", "", "rtx-a6000-server"),
        ("Quadro_RTX_8000", "", "", "rtx-8000-server"),
        ("GB200", "GB200 NVL72", "192", "gb200-nvl72"),
        ("B300", "DGX B300", "288", "dgx-b300"),
        ("GH200 (141GB)", "", "", None),
        ("MI300X", "DGX A100", "", None),
        ("", "DGX A100", "", None),
    ],
)
def test_a_node_is_found_by_what_sources_call_its_gpus(
    gpu: str, system: str, memory: str, node: str | None
) -> None:
    from reference.machine_words import find_node

    assert find_node(gpu, system, memory) == node


@pytest.mark.parametrize(
    ("text", "nics", "rate", "fabric"),
    [
        ("8x200Gb/s HDR IB per node (compute), NVSwitch (Selene)", "8", "200 Gb/s", ""),
        ("4x100Gb/s RoCE per node", "4", "100 Gb/s", "roce"),
        ("1600 Gbps/node RoCE", "8", "200 Gb/s", "roce"),
        ("vTrain config: 800 Gb/s inter-node, NVLink intra", "4", "200 Gb/s", ""),
        ("400Gb/s per GPU RDMA", "8", "400 Gb/s", ""),
        ("8x ConnectX-6 HDR200 IB", "8", "200 Gb/s", ""),
        ("32x 100G EFA", "32", "100 Gb/s", "efa"),
        ("4x Omni-Path 100Gb/s per node", "4", "100 Gb/s", ""),
        ("IB HDR (Selene)", None, "200 Gb/s", ""),
        ("NVLink 600 GB/s", None, None, ""),
        ("not stated", None, None, ""),
    ],
)
def test_a_network_is_read_as_sources_describe_it(
    text: str, nics: str | None, rate: str | None, fabric: str
) -> None:
    from reference.machine_words import read_adapters

    found = read_adapters(text, 8)
    assert (found.get("network.nics"), found.get("network.bandwidth"), found.get("fabric", "")) == (
        nics,
        rate,
        fabric,
    )


MIXTRAL = {
    "model": "Mixtral 8x7B", "params_b": "46.7", "layers": "32", "hidden": "4096", "ffn_hidden": "14336", "heads": "32",
    "kv_heads": "8", "vocab": "32000", "moe_experts": "8", "moe_topk": "2", "seq_len": "4096", "gpu": "H100-SXM5",
    "n_gpus": "64", "ep": "8", "micro_batch": "1", "global_batch": "256", "framework": "Megatron-Core",
}  # fmt: skip


def test_experts_of_a_row_are_experts() -> None:
    named = training_run(MIXTRAL).model
    assert named == load_model("mixtral-8x7b", {"sequence": 4096})
    other = training_run({**MIXTRAL, "model": "a mixture"}).model
    assert other.parameters == pytest.approx(named.parameters, rel=0.01)
    assert other.active_parameters == pytest.approx(named.active_parameters, rel=0.01)
    with pytest.raises(NotExpressible, match="moe_topk is not given"):
        training_run({**MIXTRAL, "moe_topk": ""})
    dense = training_run({**MIXTRAL, "moe_experts": "0", "moe_topk": "0", "ep": "1", "params_b": "7.2"}).model
    assert not any(block.experts for block in dense.layers)


def test_the_published_size_tells_what_an_unknown_name_does_not() -> None:
    row = {**MIXTRAL, "model": "Anonymous", "moe_experts": "", "ep": "", "params_b": "7.2"}
    assert training_run(row).model.parameters == pytest.approx(7.24e9, rel=0.01)  # gated, a head of its own
    small = {**own("PYTHIA-0001"), "framework": "megatron-2022", "micro_batch": "1"}
    assert training_run(small).model.parameters == pytest.approx(70e6, rel=0.05)  # a head of its own
    with pytest.raises(NotExpressible, match=r"params_b=46.7, but these dimensions make 7\.2"):
        training_run({**row, "params_b": "46.7"})
    with pytest.raises(NotExpressible, match="params_b='many' is not a number"):
        training_run({**row, "params_b": "many"})


def test_a_row_without_framework_or_precision_gets_the_defaults_and_says_so() -> None:
    found = training_run({**MIXTRAL, "framework": "", "precision": ""})
    assert (found.plan.software, found.plan.precision) == ("megatron-core", "bf16")
    assert found.chosen == "chosen: framework=megatron-core, precision=bf16"
    with pytest.raises(NotExpressible, match=r"framework='Homemade' has no entry .*podsim show software"):
        training_run({**MIXTRAL, "framework": "Homemade"})


def test_every_run_that_llm_foundry_measured_fits_its_gpu() -> None:
    """Its micro-batches are the largest that fitted 80 GiB; the law may not need more than there was."""
    from podsim.accuracy.price_llm import make_batches, row_costs, training_runs

    found, _ = training_runs([row for id, row in ROWS.items() if id.startswith("LF-")])
    needed = row_costs(make_batches([one for _, one in found])).memory
    assert needed.size > 90
    assert needed.max() <= 80 * 2**30
    assert needed.max() > 0.9 * 80 * 2**30


def test_a_run_that_would_not_fit_without_zero_had_it() -> None:
    bare = own("SIMU-0004")  # llama-3-70b's layers, 12 of them, on eight GPUs of 80 GB
    assert not bare["zero_stage_or_fsdp"]
    found = training_run(bare)
    assert (found.plan.zero, found.implied) == (1, "implied: zero=1, without which it does not fit")
    assert training_run({**bare, "zero_stage_or_fsdp": "ZeRO-3"}).plan.zero == 3
    assert (
        training_run({**bare, "framework": "megatron-2021", "precision": "fp16"}).plan.zero == 0
    )  # had none
    fits = training_run(own("SIMU-0010"))
    assert (fits.plan.zero, fits.implied) == (0, "")
    assert training_run(own("VTM-0001")).plan.zero == 0  # above the limit by less than the law's error


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"plan": "tp=0"}, "tp=0"),
        ({"plan": "tp=many"}, "not a list of a plan's settings"),
        ({"plan": "size=8"}, "not a list of a plan's settings"),
        ({"network": ""}, "plan is stated, and network is not"),
        ({"network": "gpt-22b layer=2"}, "layer"),
        ({"cluster": "dgx-a100-80gb:none"}, "none"),
        ({"reason": "it was not trained"}, "it was not trained"),
    ],
)
def test_a_row_that_states_its_plan_keeps_the_rules(change: dict[str, str], said: str) -> None:
    with pytest.raises(NotExpressible, match=said):
        training_run({**ROWS["KORT-0003"], **change})


RAW = {
    "model": "LLAMA3_70B", "seq_len": "8192", "gpu": "H100-SXM5", "n_gpus": "64", "tp": "4", "pp": "4", "dp": "4",
    "cp": "n/a", "micro_batch": "1", "global_batch": "128", "precision": "bf16", "framework": "NeMo v25.02",
    "year": "2025", "step_time_s": "10", "zero_stage_or_fsdp": "-", "recompute": "",
}  # fmt: skip


def test_blank_settings_of_a_recipe_are_its_defaults() -> None:
    run = training_run({**RAW, "notes": "distributed optimizer and no recompute are NeMo recipe defaults"})
    assert run.model == load_model("llama-3-70b", {"sequence": 8192})
    assert (run.plan.zero, run.plan.recompute, run.plan.cp) == (1, 0, 1)
    assert run.plan.sequence_parallel
    assert run.plan.overlap_tp  # its overlap needs sequence parallelism
    assert not training_run(
        {**RAW, "seq_parallel": "no", "zero_stage_or_fsdp": "ZeRO-1"}
    ).plan.sequence_parallel


@pytest.mark.parametrize(
    ("text", "gpu", "precision"),
    [
        ("fp8-cs (fp8-mx)", "H100-SXM5", "fp8"),
        ("fp8-mx", "GB200", "mxfp8"),
        ("mxfp8", "B200", "mxfp8"),
        ("nvfp4", "GB300", "nvfp4"),
        ("fp16/bf16 mixed (not stated)", "H100-SXM5", "bf16"),
        ("amp_bf16", "H100-SXM5", "bf16"),
    ],
)
def test_precisions_are_told_apart(text: str, gpu: str, precision: str) -> None:
    assert training_run({**RAW, "gpu": gpu, "precision": text}).plan.precision == precision


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"precision": "mxfp8"}, "mxfp8"),
        ({"precision": "posit8"}, "precision='posit8' is not known"),
        ({"dp": "3"}, "4 x 4 x 1 x 3 is not n_gpus=64"),
        ({"recompute": "sometimes"}, "recompute='sometimes' is not known"),
    ],
)
def test_a_row_that_contradicts_itself_says_so(change: dict[str, str], said: str) -> None:
    with pytest.raises(NotExpressible, match=said):
        training_run({**RAW, **change})


def test_accumulation_steps_give_the_micro_batch() -> None:
    row = {**RAW, "micro_batch": "", "notes": "grad_accum=8; derived here: step_time_s"}
    assert training_run(row).plan.micro_batch == 4
    assert training_run({**row, "notes": "gradient accumulation of 16 steps"}).plan.micro_batch == 2


def test_corrections_in_the_notes_count() -> None:
    row = {**own("KORT-0001"), "framework": "Megatron-LM", "year": "2024", "recompute": "full"}
    notes = "corrected: baseline commit older than the paper: year 2022, selective recomputation, unfused attention"
    plan = training_run({**row, "notes": notes}).plan
    assert (plan.software, plan.recompute, plan.flash) == ("megatron-2022", 1, False)


def test_a_size_that_is_off_is_said() -> None:
    row = {**own("NEMO-0007"), "framework": "nemo-2022"}
    assert "of the stated 6 x 10^9" in training_run({**row, "params_b": "6"}).implied
    assert "of the stated" not in training_run(row).implied


def _curated(path: Path) -> Path:
    out = path.with_name("curated.csv")
    rows = [{**row, "id": f"line-{number}"} for number, row in enumerate(read_csv(path), 2)]
    out.write_text(csv_text(curated(rows)), "utf-8")
    return out


def test_a_file_keeps_its_other_rows(tmp_path: Path) -> None:
    bad = [{"gpu": "Z1"}, {"n_gpus": "many"}, {"layers": "-3"}, {"dec_layers": "n/a"}]
    lines = [RAW, *({**RAW, "dec_layers": "", **change} for change in bad)]
    columns = [*RAW, "layers", "dec_layers", "notes"]
    text = "\n".join(",".join(line.get(column, "") for column in columns) for line in lines)
    path = tmp_path / "raw.csv"
    path.write_text(",".join(columns) + "\n" + text + "\n", "utf-8")
    priced = price_llm(read_rows(_curated(path))[1])
    assert (len(priced.predictions), len(priced.reasons)) == (2, 3)
    assert "gpu='Z1' has no node" in priced.reasons["line-3"]
    assert "n_gpus='many'" in priced.reasons["line-4"]


def test_packaged_rows_are_raw_rows_read_by_the_same_reader() -> None:
    from reference.packaged import raw_rows

    raw = {row["id"]: row for row in raw_rows("llm")}
    for id in ("TT-0013", "BLOOM-0086", "MBB-0008", "KORTL-0003", "DGXC-0264", "NEMOH100-0005"):
        assert training_run(raw[id]).plan == training_run(ROWS[id]).plan


T5 = {
    "model": "T5 11B", "params_b": "11", "layers": "24", "hidden": "4096", "heads": "64", "ffn_hidden": "10240",
    "vocab": "29184", "seq_len": "512", "dec_layers": "24", "dec_seq_len": "128", "gpu": "A100-SXM4-80GB",
    "n_gpus": "160", "tp": "4", "micro_batch": "24", "global_batch": "1920", "framework": "NeMo-Megatron", "year": "2022",
    "precision": "bf16", "step_time_s": "4",
}  # fmt: skip


def test_a_decoder_of_fewer_tokens_does_less_work() -> None:
    short, even, unstated = (training_run({**T5, "dec_seq_len": text}) for text in ("128", "512", ""))
    assert short.model.parameters == even.model.parameters == pytest.approx(11e9, rel=0.01)
    assert unstated.model == even.model
    assert "as many tokens as the encoder" in unstated.implied
    done, whole = short.model.forward_flops(), even.model.forward_flops()
    assert done["logits"] == pytest.approx(whole["logits"] / 4)
    half = (
        whole["gemm"] / 2
    )  # the decoder has cross-attention, of whose keys and values the encoder's tokens are many
    assert half < done["gemm"] < 0.65 * whole["gemm"]
    with pytest.raises(NotExpressible, match="dec_layers is not given"):
        training_run({**T5, "dec_layers": ""})
