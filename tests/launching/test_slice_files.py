"""MaxText files of plans on slices of TPUs, written and read."""

from __future__ import annotations

import pytest

import podsim
from podsim.safe_yaml import read_documents

SLICES = {"on": "4x v5e-256", "zero": 3, "shard": 256, "recompute": "full", "batch": 1024}


def test_axes_over_ici_and_dcn(tmp_path):
    text = podsim.launch("llama3-8b", tool="maxtext", force=True, **SLICES).text
    keys = read_documents(text)[0]
    assert isinstance(keys, dict)
    assert (keys["ici_fsdp_parallelism"], keys["dcn_data_parallelism"]) == (256, 4)
    assert (keys["hardware"], keys["attention"], keys["compile_topology"]) == ("tpu", "flash", "v5e-256")
    file = tmp_path / "run.yml"
    file.write_text("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    plan = podsim.launch(read=str(file), gpus=1024).plan
    assert (plan["dp"], plan["shard"], plan["zero"], plan["global_batch"]) == (1024, 256, 3, 1024)


@pytest.mark.parametrize(
    ("text", "shard", "tp"),
    [
        ("ici_fsdp_parallelism: -1\ndcn_data_parallelism: 2", 32, 1),
        ("ici_fsdp_parallelism: 16\nici_tensor_parallelism: 4", 16, 4),
    ],
)  # fmt: skip
def test_an_axis_takes_what_is_left(tmp_path, text, shard, tp):
    file = tmp_path / "run.yml"
    file.write_text(f"base_config: base.yml\n{text}\nper_device_batch_size: 1\n")
    plan = podsim.launch(read=str(file), gpus=64).plan
    assert (plan["tp"], plan["shard"] or plan["dp"]) == (tp, shard)
