"""What entries of MLPerf and rows on TPUs call their frameworks, servers, chips and models."""

from __future__ import annotations

import pytest
from reference.curate_networks import network_cells

from reference import curate_tpu

ENTRY = {
    "version": "v2.0", "accelerator": "NVIDIA A100-SXM4-80GB", "n_nodes": "1", "accel_per_node": "8",
    "n_accelerators": "8", "benchmark": "resnet", "framework": "MXNet NVIDIA Release 22.04",
    "batch_per_accel": "100", "global_batch": "800",
}  # fmt: skip
SEVERAL = "NGC MXNet 22.04, NGC PyTorch 22.04, NGC HugeCTR 22.04"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "software=mlperf-mxnet-2021"),
        ({"version": "v0.7"}, "software=mlperf-mxnet"),
        ({"framework": SEVERAL}, "software=mlperf-mxnet-2021"),
        ({"framework": SEVERAL, "benchmark": "bert"}, "software=mlperf-pytorch-bert"),
        ({"framework": SEVERAL, "benchmark": "dlrm"}, "dlrm software=mlperf-hugectr-2021 fuse=epilogues"),
        ({"framework": "NVIDIA Release 22.04", "benchmark": "maskrcnn"}, "software=mlperf-pytorch-2021"),
        ({"framework": "Merlin HugeCTR", "benchmark": "dlrm_dcnv2", "version": "v3.0"}, "dlrm-dcnv2"),
        ({"framework": "TensorFlow 2.4"}, "software=dle-tensorflow2"),
        # ten cards of a server are one node, and nodes of four are nodes of four
        (
            {"accelerator": "NVIDIA A30", "accel_per_node": "10", "n_accelerators": "10"},
            "a30-server:1 gpus_per_node=10",
        ),
        ({"n_nodes": "2", "accel_per_node": "4"}, "dgx-a100-80gb:2 gpus_per_node=4 network.nics=4"),
    ],
)
def test_an_entry_of_mlperf_says(changes: dict[str, str], words: str) -> None:
    cells = network_cells("mlperf", {**ENTRY, **changes})
    said = f"{cells['network']} {cells['cluster']} {cells['plan']}".split()
    assert set(words.split()) <= set(said)


TPU = {
    "id": "1", "model": "llama3.1-8b", "seq_len": "8192", "gpu": "tpu-v5p", "n_gpus": "128", "global_batch": "128",
    "chip_topology": "4x4x8", "step_time_s": "2", "framework": "MaxText",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "column", "words"),
    [
        ({"gpu": "TPU v5p"}, "cluster", "tpu-v5p:4x4x8"),
        ({"gpu": "Ironwood", "precision": "fp8"}, "plan", "precision=fp8"),
        (
            {"gpu": "Trillium (v6e)", "n_gpus": "512", "global_batch": "512", "chip_topology": ""},
            "cluster",
            "2x tpu-v6e:256",
        ),
        ({"model": "Llama 3.1 70B"}, "network", "sequence=8192"),
        ({"model": "llama-3.1-405b"}, "network", "llama-3.1-405b"),
        ({"global_batch": "64"}, "plan", "tp=2"),
    ],
)
def test_a_row_on_tpus_says(changes: dict[str, str], column: str, words: str) -> None:
    (cells,) = curate_tpu.curated([{**TPU, **changes}])
    assert cells["reason"] == ""
    assert words in cells[column]
