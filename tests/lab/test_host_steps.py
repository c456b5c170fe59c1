"""What small steps tell of a machine: constants that made the steps are found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from podsim.acceptance.host_constants import host_constants, runtime_of, small_runs
from podsim.hardware.cluster import load_cluster
from podsim.lab.training.train_job import Training
from podsim.options.plan_options import PlanOptions
from podsim.training.groups import send_table
from podsim.training.layers import Pass, layer_table, syncs_of, tp_bytes
from podsim.training.memory import weight_table
from podsim.training.plan import Setting, read_plan
from podsim.training.software import Software, load_software

FILE = Path(__file__).parents[1] / "hardware" / "data" / "host.toml"
SOFTWARE = "pytorch-eager"
LATENCY, PER_BYTE = {2: 1e-3, 8: 4e-3}, {2: 5e-9, 8: 2e-8}


def _layer(setting: Setting, software: Software) -> float:
    table = layer_table(setting.model, setting.cluster, setting.plan.arrays(), software)
    return float(table[[Pass.FORWARD, Pass.BACKWARD], :, 1, 0].sum())


def _runs(ranks: int) -> dict[str, Training]:
    return {name: job for kind in small_runs(ranks, "gloo", 60.0) for name, job in kind.items()}


def _setting(run: str, *, tp: int = 1, pp: int = 1) -> Setting:
    """The plan of one of the small runs, on the machine of the file."""
    job = _runs(8)[run]
    assert job.network is not None
    assert (int(job.plan.tp), int(job.plan.pp)) == (tp, pp)
    names = ("layers", "heads", "hidden", "vocab", "sequence")
    network = {f"model.{name}": str(getattr(job.network, name)) for name in names}
    return read_plan(PlanOptions(
        model="gpt2", on=str(FILE), gpus=8, batch=int(job.plan.global_batch), tp=tp, pp=pp, dp=8 // (tp * pp),
        micro_batch=int(job.plan.micro_batch), overlap_grad=False, precision="fp32", software=SOFTWARE,
        overrides={**network, "model.dropout": "false", "model.tied": "false"},
    ))  # fmt: skip


def test_constants_that_made_the_steps_are_found_again() -> None:
    gpu = load_cluster(str(FILE)).gpu
    made = replace(load_software(SOFTWARE, gpu), host_kernel=40e-6, gemm_speed=0.8, collective_speed=1e12)
    runtime = {"update": 2e-3, "step": 1.0}
    for wide in ("", "wide "):
        for tp in (1, 2, 8):
            setting = _setting(f"{wide}tp {tp} {3 if wide else 6}", tp=tp)
            seconds = _layer(setting, made if wide else replace(made, gemm_speed=1.0))
            if tp > 1:
                count = sum(syncs_of(setting.model, setting.model.kinds[1]))
                seconds += count * (LATENCY[tp] + PER_BYTE[tp] * float(tp_bytes(setting.model, setting.plan)))
            runtime[f"{wide}layer over {tp}"] = seconds
        setting = _setting(f"{wide}zero 3 {3 if wide else 6}")
        parameters = float(weight_table(setting.model, setting.plan.arrays()).dense[1, 0])
        seconds = _layer(setting, made if wide else replace(made, gemm_speed=1.0))
        runtime[f"{wide}layer under ZeRO 3"] = seconds + 3 * (5e-3 + 7e-9 * 4 * parameters)
    piped = _setting("pp 8", pp=8)
    send = float(send_table(piped.model, piped.cluster, piped.plan.arrays(), made).mean_seconds[0])
    runtime["stage"] = _layer(piped, made) + 2 * (send + 3e-3)
    found = host_constants(runtime, 8, FILE, SOFTWARE)
    constants = found.constants
    assert constants["host_kernel"] == pytest.approx(40e-6)
    assert constants["gemm_speed"] == pytest.approx(0.8, rel=1e-3)
    assert constants["host_send"] == pytest.approx(3e-3, rel=1e-3)
    assert constants["host_update"] == 2e-3
    assert 0.5 < constants["host_step"] < 1.0  # of a step of a second, what no law holds
    assert [sync["ranks"] for sync in found.syncs] == [2, 8]
    (shard,) = found.shards
    assert shard["ranks"] == 8
    assert shard["latency"] == pytest.approx(5e-3, rel=0.05)
    assert shard["per_byte"] == pytest.approx(7e-9, rel=0.05)
    for sync in found.syncs:
        assert sync["latency"] == pytest.approx(LATENCY[int(sync["ranks"])], rel=0.05)
        assert sync["per_byte"] == pytest.approx(PER_BYTE[int(sync["ranks"])], rel=0.05)


def test_a_layer_is_what_a_deeper_network_takes_longer() -> None:
    runs = _runs(4)
    steps = {
        name: {"passes": 1.0 + 0.25 * len(job.cut) * sum(job.cut), "update": 0.5 + 0.125 * sum(job.cut)}
        for name, job in runs.items()
    }
    for micro in (4, 8):
        steps[f"pp {micro}"]["passes"] = 2.0 + 0.5 * micro
    told = runtime_of(steps, 4)
    assert told.pop("stage") == 0.5
    assert told.pop("step") == 1.5 + 0.75
    assert told.pop("update") == 0.125
    assert set(told) == {
        f"{wide}layer {how}"
        for wide in ("", "wide ")
        for how in ("under ZeRO 3", "over 1", "over 2", "over 4")
    }
    assert np.allclose(list(told.values()), 0.25)
    assert runtime_of({}, 4) == {}


def test_one_rank_shares_nothing() -> None:
    assert sorted(_runs(1)) == ["tp 1 2", "tp 1 6", "wide tp 1 1", "wide tp 1 3"]
    assert {int(job.plan.gpus) for job in _runs(6).values()} == {6}


def test_a_measured_gpu_has_the_attention_that_was_measured(tmp_path: Path) -> None:
    """A GPU of today could fuse attention, but only the unfused law has constants of the measured machine."""
    text = FILE.read_text("utf-8")
    assert "compute_capability = 0" in text
    file = tmp_path / "gpu.toml"
    file.write_text(text.replace("compute_capability = 0", "compute_capability = 9", 1), "utf-8")
    setting = read_plan(PlanOptions(model="gpt2", on=str(file), gpus=8, batch=8, software=SOFTWARE))
    assert setting.cluster.gpu.has_fused_attention
    assert not setting.plan.flash
    assert _layer(setting, load_software(SOFTWARE, setting.cluster.gpu)) > 0
