from __future__ import annotations

import pytest

from podsim.verbs.calibrate_software import fit_software
from podsim.verbs.express import NotExpressible, express
from podsim.verbs.tables import training_rows
from podsim.workload.catalog import load_model

ROWS = {row["id"]: row for row in training_rows()}
OPEN = {**ROWS["MLMH100-0005"]}  # states tp, pp, dp and the batch


def test_a_row_without_a_micro_batch_gets_the_fastest_plan_that_it_allows() -> None:
    from podsim.training.step import step_cost

    found = express(OPEN)
    assert (found.plan.tp, found.plan.pp, found.plan.dp, found.plan.global_batch) == (8, 2, 48, 384)
    assert found.chosen.startswith("chosen: micro_batch=")
    best = step_cost(found.model, found.cluster, found.plan)
    assert best.memory_P.item() <= found.cluster.gpu.memory
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
        if plan.describe() != found.plan.describe() and cost.memory_P.item() <= found.cluster.gpu.memory:
            others.append(cost.seconds_P.item())
    assert len(others) > 2
    assert best.seconds_P.item() <= min(others)


def test_what_an_open_row_states_stays() -> None:
    stated = {"recompute": "full", "virtual_pp": "3", "seq_parallel": "no", "zero_stage_or_fsdp": "ZeRO-1"}
    plan = express({**OPEN, **stated}).plan.describe()
    assert plan["recompute"] == "full"
    assert plan["recompute_layers"] == 0
    assert (plan["virtual_stages"], plan["sequence_parallel"], plan["zero"]) == (3, False, 1)


def test_an_open_row_takes_nothing_that_its_framework_lacks() -> None:
    plan = express(ROWS["MLM21JAN-0008"]).plan.describe()
    assert plan["recompute"] == "full"
    assert (plan["sequence_parallel"], plan["zero"], plan["flash"], plan["virtual_stages"]) == (
        False,
        0,
        False,
        1,
    )


def test_an_open_row_that_fits_nowhere_says_what_it_needs() -> None:
    with pytest.raises(NotExpressible, match=r"micro_batch is not given, and no plan .* fits: .* of 80 GB"):
        express({**ROWS["MLM21JAN-0008"], "layers": "1800"})


def test_a_line_of_ones_own_names_a_model_and_an_era() -> None:
    line = {
        "model": "llama-3-8b", "seq_len": "8192", "gpu": "h100-sxm5-80gb", "n_gpus": "64", "global_batch": "512",
        "precision": "bf16", "framework": "Torchtitan-2024-compile", "step_time_s": "6",
    }  # fmt: skip
    found = express(line)
    assert (found.plan.software, found.plan.gpus, found.model.layer_count) == (
        "torchtitan-2024-compile",
        64,
        32,
    )
    assert found.chosen.startswith("chosen: tp=1, pp=1, dp=64, micro_batch=")


def test_a_rate_without_a_batch_is_of_the_default_batch() -> None:
    rate = {**OPEN, "global_batch": "", "dp": "48"}
    found = express(rate)
    assert found.plan.global_batch == 1056  # 4 Mi tokens are 1024 sequences of 4096; 22 for each of 48
    assert found.chosen.startswith("chosen: global_batch=1056, micro_batch=")
    given = express(
        {**rate, "tp": "8", "pp": "4", "n_gpus": "1536", "seq_parallel": "yes", "micro_batch": "1"}
    )
    assert given.chosen == "chosen: global_batch=1056"
    with pytest.raises(NotExpressible, match="global_batch is not given"):
        express({**rate, "step_time_s": "2.5"})


def test_a_fit_takes_no_row_of_which_podsim_chose_a_setting() -> None:
    assert all(express(ROWS[f"NEMO-000{i}"]).chosen for i in (1, 2, 3))
    _, _, used = fit_software(list(ROWS.values()), "nemo-2022", ["gemm_speed"])
    assert used
    assert not {"NEMO-0001", "NEMO-0002", "NEMO-0003"} & set(used)


@pytest.mark.parametrize(
    ("text", "name", "layers"),
    [
        ("llama3-70b (12 layers)", "llama-3-70b", 12),
        ("DeepSeek-V2 236B (4 layers)", "deepseek-v2", 4),
        ("gpt3-175b", "gpt3-175b", 96),
    ],
)
def test_a_model_without_dimensions_is_looked_up(text: str, name: str, layers: int) -> None:
    row = {**ROWS["SIMU-0003"], "model": text, "n_gpus": "512", "dp": "", "global_batch": "1024"}
    assert express(row).model == load_model(name, {"layers": layers, "sequence": 4096})


@pytest.mark.parametrize(
    "text", ["", "llama3-70b twelve layers", "../secret/config.json", "no-such-model (3 layers)"]
)
def test_a_model_that_nothing_knows_is_said(text: str) -> None:
    with pytest.raises(NotExpressible, match="layers is not given, and model="):
        express({**ROWS["SIMU-0003"], "model": text})
