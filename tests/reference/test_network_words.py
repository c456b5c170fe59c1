"""Rows of captured networks in their sources' words, and what an engine serves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reference.curate_networks import canonical, network_cells

from podsim.accuracy.measured_runs import NotExpressible
from podsim.accuracy.price_inference import (
    InferenceCosts,
    latency_seconds,
    price_inference,
    read_inference_run,
)
from podsim.accuracy.price_networks import price_networks
from podsim.accuracy.tables import load

TRANSLATION = {
    "model": "Translation/Transformer", "framework": "PyTorch", "task": "train", "gpu": "V100-16GB", "n_gpus": "8",
    "node_type": "DGX-1 V100 16GB", "precision": "FP32", "batch_per_gpu": "5120/2560", "unit": "tokens/s",
}  # fmt: skip
CLASSES = {
    "model": "Classification/RN50v1.5", "framework": "MxNet", "task": "infer", "gpu": "A100-80GB", "n_gpus": "1",
    "node_type": "DGX A100 80GB", "precision": "FP16/mixed", "batch_per_gpu": "4", "throughput": "4000",
    "unit": "img/sec", "latency_ms": "1.0",
}  # fmt: skip


SPEECH = {
    **CLASSES, "model": "SpeechSynthesis/HiFiGAN", "framework": "PyTorch", "batch_per_gpu": "1", "throughput": "8906958",
    "unit": "samples/sec", "latency_ms": "0.02", "notes": "ctx: TorchScript + denoising:",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "network", "engine", "rate"),
    [
        ({}, "hifigan-speech-8s", "torchscript-speech", 8906958 / (693 * 256)),  # 693 frames of 256 samples of sound
        (
            {"model": "FastPitch", "unit": "frames/sec", "throughput": "69300"},
            "fastpitch-speech-128", "torchscript-speech", 100,
        ),
        (
            {"model": "Transformer-XL", "seq_len": "64", "unit": "tok/s", "throughput": "6400",
             "notes": "Base model; ctx: **FP16, TorchScript** **FP32, pure Python**"},
            "transformer-xl-base-64", "pytorch", 100,
        ),
        (
            {"model": "NCF", "framework": "TensorFlow", "throughput": "0.8", "batch_per_gpu": "1024", "notes": ""},
            "ncf", "tensorflow", 800_000,
        ),
    ],
)  # fmt: skip
def test_rates_of_parts_of_a_sample(changes: dict[str, str], network: str, engine: str, rate: float) -> None:
    row = {"time_to_train_h": "", **SPEECH, "latency_ms": "", **changes}
    cells = canonical("vision", row)
    assert (cells["network"], cells["reason"], cells["unit"]) == (network, "", "samples/s")
    assert cells["plan"].endswith(f"engine={engine}")
    assert float(cells["throughput"]) == pytest.approx(rate)


def test_headings_above_a_table_name_the_processor() -> None:
    row = {
        **SPEECH,
        "model": "Recommendation/DLRM",
        "gpu": "T4-16GB",
        "node_type": "",
        "throughput": "",
        "latency_ms": "",
    }
    gpu = {**row, "notes": "**TorchScript FP32 inference (V100-32G)**"}
    assert network_cells("vision", gpu)["cluster"] == "v100-sxm2-32gb"
    cpu = {**row, "notes": f"{gpu['notes']} **TorchScript FP32 inference CPU (2x E5-2698 v4 @ 2.20GHz)**"}
    with pytest.raises(NotExpressible, match="processors of the host"):
        network_cells("vision", cpu)


def test_cards_without_nvlink_exchange_every_vector() -> None:
    row = {
        "benchmark": "dlrm", "framework": "Merlin HugeCTR", "version": "v1.1", "n_accelerators": "8",
        "accel_per_node": "8", "n_nodes": "1", "global_batch": "55296", "system": "",
    }  # fmt: skip
    for gpu, software in (
        ("A100-SXM4-40GB", "mlperf-hugectr-2021"),
        ("A100-PCIe-40GB", "mlperf-hugectr-pcie"),
    ):
        plan = network_cells("mlperf", {**row, "accelerator": f"NVIDIA {gpu}"})["plan"]
        assert plan.endswith(f"software={software}")


@pytest.mark.parametrize(
    ("row", "changes", "words"),
    [
        # batches of 2,560 or 5,120 tokens, the larger in 16 bits: 32 tokens a sample
        (TRANSLATION, {}, "transformer-big; gpus=8; batch=80; items=32; precision=fp32; software=dle-pytorch-unfused"),
        (TRANSLATION, {"precision": "FP16/mixed"}, "transformer-big; batch=160; precision=fp16"),
        (CLASSES, {}, "resnet50; a100-sxm4-80gb; inference gpus=1; batch=4; concurrency=1; engine=mxnet"),
        (CLASSES, {"notes": "concurrency=4", "batch_per_gpu": "1"}, "batch=1; concurrency=4"),
        (CLASSES, {"task": "train", "batch_per_gpu": "192"}, "resnet50; batch=192; items=1; software=dle-mxnet"),
    ],
)  # fmt: skip
def test_what_a_row_says(row: dict[str, str], changes: dict[str, str], words: str) -> None:
    cells = network_cells("vision", {**row, **changes})
    said = f"{cells['network']} {cells['cluster']} {cells['plan']} "
    for word in words.split("; "):
        assert f"{word} " in said


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        (CLASSES, {"framework": "Abacus"}, "no engine is known"),
        (CLASSES, {"model": "Novel"}, "no packaged graph is named"),
        (CLASSES, {"latency_ms": "30"}, "contradict each other"),
        (CLASSES, {"gpu": "Abacus 9", "node_type": ""}, "not measured on a GPU of the catalog"),
        (TRANSLATION, {"unit": "frames/s"}, "counts frames"),
        (TRANSLATION, {"precision": ""}, "the precision is not given"),
        (TRANSLATION, {"batch_per_gpu": "large"}, "is not a number"),
    ],
)
def test_what_a_row_lacks(row: dict[str, str], changes: dict[str, str], message: str) -> None:
    with pytest.raises(NotExpressible, match=message):
        network_cells("vision", {**row, **changes})


def test_requests_wait_for_those_before_them() -> None:
    run = read_inference_run(network_cells("vision", CLASSES))
    # two GPUs with four requests of eight samples each under way: 64 samples, at 128 a second
    assert latency_seconds(replace(run, gpus=2, batch=8, concurrency=4), 128.0) == 0.5
    costs = InferenceCosts()
    alone = costs.rate(run)
    assert 1000 < alone < 20000  # 4 / 1.0 ms measured
    assert costs.rate(replace(run, gpus=2)) == pytest.approx(2 * alone)


def test_rows_of_inference_are_priced_or_refused() -> None:
    words = {"fast": CLASSES, "odd": {**CLASSES, "model": "Novel"}}
    rows = {id: canonical("vision", {**row, "time_to_train_h": ""}) for id, row in words.items()}
    rows["none"] = {**rows["fast"], "reason": "no graph"}
    rates, reasons = price_inference(rows.items(), "samples/s")
    times, _ = price_inference(rows.items(), "seconds")
    assert set(rates) == set(times) == {"fast"}
    assert times["fast"] == pytest.approx(4 / rates["fast"])
    assert reasons["none"] == "no graph"
    assert "Novel" in reasons["odd"]


def test_a_network_trains_as_fast_as_measured() -> None:
    rows = load("vision").where(lambda row: row.id in ("dle03722", "dle03723", "dle00024"))
    priced = price_networks(rows)
    assert set(priced.predictions) == {"dle03722", "dle03723"}
    for id, rate in priced.predictions.items():
        assert rate == pytest.approx(rows[id].number("throughput"), rel=0.35)
        assert priced.ideals[id] > rate
    assert "forward pass" in priced.reasons["dle00024"]
