"""Inference: passes by hand, theorems, the engine held against published latencies, slices against MLPerf."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.engines import fit_engine, score_engine

from podsim.errors import CatalogError, ModelError, PlanError, TableError
from podsim.hardware.catalog import load_gpu
from podsim.kernels.constants import gemm_constants, kernel_constants
from podsim.serving.engines import FITTED, Engine, engine_names, load_engine
from podsim.serving.inference_passes import (
    cache_bytes,
    check,
    image_pass,
    model_weight_bytes,
    prompt_pass,
    token_pass,
)
from podsim.serving.kernels import is_single_block, product_seconds, runs_on, weight_bytes
from podsim.serving.latencies import REVISIONS, latency_rows
from podsim.serving.latency import Task, largest_batch, memory_bytes, rows_of, serve_on
from podsim.serving.mlperf import sevenths
from podsim.serving.triton import config_text
from podsim.workload.catalog import load_model
from podsim.workload.convolution import resnet50

A100 = load_gpu("a100-40gb")
SLICE = load_gpu("a100-40gb/1g.5gb")
B = np.array([1.0, 8.0, 64.0])
FITS = [("tensorrt-2026", "ampere"), ("tensorrt-2021", "ampere"), ("tensorrt-2021", "volta")]


def _task(name: str = "bert-large", precision: str = "fp16", **other: object) -> Task:
    network = resnet50() if name == "resnet-50" else load_model(name)
    given: dict[str, object] = {
        "tokens": 224 if name == "resnet-50" else 128,
        "output": 0,
        "sparse": False,
        **other,
    }
    return Task(network=network, precision=precision, engine=load_engine("tensorrt-2026", "ampere"), **given)  # type: ignore[arg-type]


def test_the_cache_of_a_sequence_holds_prompt_and_answer() -> None:
    """Keys and values of 12 layers of 768 in 16 bits, for 100 + 28 tokens."""
    assert _task("gpt2", tokens=100, output=28).cache == 128 * 12 * 2 * 768 * 2


def test_experts_work_on_two_copies_of_a_token() -> None:
    """Gate and up of 14,336 each out of 4,096, beside the state, for each of Mixtral's two experts; 10 tokens of 2 B."""
    widest = 2 * (2 * 14336 + 4096 + 4096)
    assert _task("mixtral-8x7b", tokens=10).activations == 10 * widest * 2.0


# ---------------------------------------------------------------------------------------------- networks and bytes


def test_resnet_50_by_its_published_figures() -> None:
    """25,557,032 parameters (torchvision), 4.09 GMAC of convolutions and the last layer, 53 convolutions."""
    net = resnet50()
    assert net.parameters == 25_557_032
    assert net.flops / 2e9 == pytest.approx(4.09, abs=0.01)
    assert len(net.convolutions) == 53
    assert net.convolutions[-1].size == 7
    assert resnet50(448).flops == pytest.approx(4 * net.flops, rel=0.01)


def test_bytes_by_hand() -> None:
    """Llama-2-7B: 32 layers x 2 x 4096 x 2 B a token; 2:4 sparse int8: half a byte and two bits."""
    llama = load_model("llama-2-7b")
    assert cache_bytes(llama, 1) == 32 * 2 * 4096 * 2
    assert cache_bytes(load_model("bert-large"), 512) == 0
    assert weight_bytes("int8", True) == 0.625
    assert weight_bytes("fp16", True) == 1.125
    assert model_weight_bytes(llama, "fp16", False) == pytest.approx(2 * 6.74e9, rel=0.01)
    assert cache_bytes(load_model("llama-3-8b"), 1) == 32 * 2 * 1024 * 2  # grouped heads
    assert cache_bytes(load_model("deepseek-v3"), 1) == 61 * 2 * (512 + 64)  # latent
    assert cache_bytes(load_model("mistral-7b"), 10**6) <= 32 * 2 * 1024 * 2 * 10**6


def test_kernels_of_a_bert_layer() -> None:
    """Four products, attention, two norms; and the embedding."""
    done = prompt_pass(load_model("bert-base"), A100, B, 128, precision="fp16", sparse=False)
    assert done.kernels == 12 * 7 + 1
    assert done.is_single_block
    assert not is_single_block(A100, 1024)
    assert image_pass(resnet50(), A100, B, precision="int8", sparse=False).kernels == 53 + 2 + 1


def test_a_decoded_token_reads_weights_and_caches() -> None:
    """Never below what must be read, and not far above it at batch 1."""
    llama = load_model("llama-2-7b")
    done = token_pass(llama, load_gpu("a100-80gb"), np.array([1.0]), 1000, precision="fp16", sparse=False)
    engine = Engine(name="", title="", source="", evidence="")
    seconds = float(sum(part[0] for part in done.seconds(engine, "fp16", False).values()))
    least = (13.2e9 + cache_bytes(llama, 1000)) / 2039e9
    assert least < seconds < 2 * least


# ------------------------------------------------------------------------------------------------------- theorems


@given(
    st.sampled_from(["bert-large", "gpt2", "resnet-50"]),
    st.sampled_from(["fp16", "int8"]),
    st.integers(1, 96),
)
@settings(max_examples=12, deadline=None)
def test_more_work_takes_longer_and_no_peak_is_beaten(name: str, precision: str, batch: int) -> None:
    task = _task(name, precision)
    one, two = rows_of(task, A100, [batch, 2 * batch], None)
    assert one.latency < two.latency
    assert two.throughput >= one.throughput * 0.9  # waves may cost a little
    assert one.memory < two.memory
    assert 0 < two.utilisation <= 1
    assert sum(two.parts.values()) == pytest.approx(two.latency)


@given(st.sampled_from(["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]), st.integers(1, 128))
@settings(max_examples=20, deadline=None)
def test_a_slice_is_slower_than_its_gpu(profile: str, batch: int) -> None:
    part = load_gpu(f"a100-40gb/{profile}")
    small, whole = (rows_of(_task(precision="int8"), gpu, [batch], None)[0].latency for gpu in (part, A100))
    assert small >= whole * 0.999


def test_sparsity_helps_products_alone() -> None:
    dense, sparse = (
        product_seconds(A100, B * 1024, 4096, 4096, precision="int8", sparse=s) for s in (False, True)
    )
    assert np.all(sparse < dense)
    assert np.all(sparse > dense / 2.2)
    assert runs_on(A100, "int8", True).peaks["int8"] == 1248e12


def test_the_largest_batch_is_the_largest_that_fits() -> None:
    task = _task("llama-2-7b", tokens=512, output=128)
    most = largest_batch(task, load_gpu("a100-80gb"))
    assert memory_bytes(task, most) <= 80e9 < memory_bytes(task, most + 1)
    assert largest_batch(task, A100) < most
    assert largest_batch(task, SLICE) == 0


def test_the_batch_in_time_is_the_largest() -> None:
    task = _task(precision="int8")
    found = serve_on(task, SLICE, batches=[1, 2, 4, 8, 16, 32], limit=0.05, instances=7, neighbours=0.01)
    assert found.best is not None
    assert 2 * found.best.latency <= 0.05 < 2 * rows_of(task, SLICE, [found.best.batch + 1], None)[0].latency
    assert found.total == pytest.approx(7 * found.best.throughput * 0.99)
    none = serve_on(task, SLICE, batches=[1, 2], limit=1e-6)
    assert none.best is None
    assert none.total == 0


# -------------------------------------------------------------------------------------------------------- oracles


@pytest.mark.parametrize(("name", "architecture"), FITS)
def test_constants_are_their_fit(name: str, architecture: str) -> None:
    packaged = load_engine(name, architecture)
    fitted = fit_engine(packaged, architecture)
    for key in FITTED:
        assert getattr(fitted, key) == pytest.approx(getattr(packaged, key), rel=2e-3, abs=2e-8), key


@pytest.mark.parametrize(("name", "architecture"), FITS)
def test_bert_large_was_not_fitted_and_is_predicted(name: str, architecture: str) -> None:
    """Mean error of TensorRT's latencies of BERT-Large below 8 %, batch 1 to 128, 128 and 384 tokens."""
    scores = score_engine(load_engine(name, architecture), architecture)
    held_out = [one for one in scores if not one.fitted]
    assert held_out
    assert all("bert-large" in one.name for one in held_out)
    assert max(one.mean for one in held_out) < 0.08
    assert max(one.mean for one in scores) < 0.08


def test_no_speed_beats_the_peak() -> None:
    """Speeds relative to the law may exceed one, but not by more than the law's ceiling leaves."""
    for name, architecture in FITS:
        engine = load_engine(name, architecture)
        gpu = load_gpu("v100" if architecture == "volta" else "a100-40gb")
        for precision, speed in (("fp16", engine.half_speed), ("int8", engine.int8_speed)):
            if precision in gpu.peaks:
                assert speed * gemm_constants(kernel_constants(gpu), precision)[0].ceiling <= 1, (
                    name,
                    precision,
                )
        assert engine.sparse_speed < 1


def test_mlperf_slices_lie_where_they_were_measured() -> None:
    rows = sevenths()
    assert len(rows) == 14
    assert all(0.76 <= one.predicted <= 0.97 for one in rows)
    assert min(one.measured for one in rows) == pytest.approx(0.762, abs=0.001)
    assert max(one.measured for one in rows) == pytest.approx(0.974, abs=0.001)
    assert sum(abs(one.predicted / one.measured - 1) for one in rows) / len(rows) < 0.07
    known = [one for one in rows if one.how.startswith("kernels")]
    assert {one.model for one in known} == {"bert-99", "resnet50"}
    assert all(abs(one.predicted / one.measured - 1) < 0.07 for one in known)


def test_single_stream_is_no_constant_factor() -> None:
    """MLPerf 0.7, one query at a time: BERT 3.9 times slower on a slice, ResNet-50 1.5 times; neither is seven."""
    bert, resnet = (
        rows_of(task, SLICE, [1], None)[0].latency / rows_of(task, A100, [1], None)[0].latency
        for task in (_task(precision="int8", tokens=384), _task("resnet-50", "int8"))
    )
    assert 2.5 < bert < 5.5
    assert 1.2 < resnet < 2.5


def test_resnet_50_offline_is_told_somewhat_too_slow() -> None:
    """MLPerf: images/s of a whole A100 and of one slice, int8; constants are BERT's."""
    for name, measured in (
        ("a100-40gb", 37479.5), ("a100-80gb", 39830.1), ("a100-40gb/1g.5gb", 4966.44), ("a100-80gb/1g.10gb", 5316.2),
    ):  # fmt: skip
        predicted = rows_of(_task("resnet-50", "int8"), load_gpu(name), [1024], None)[0].throughput
        assert -0.09 < predicted / measured - 1 < 0, name


# ------------------------------------------------------------------------------------------------------ bad input


def test_what_cannot_be_served() -> None:
    with pytest.raises(ModelError, match="an encoder and a decoder"):
        check(load_model("t5-3b"))
    with pytest.raises(PlanError, match="no 2:4 sparse int8 products; it has none"):
        runs_on(load_gpu("v100"), "int8", True)
    with pytest.raises(PlanError, match="has no int8 arithmetic"):
        runs_on(load_gpu("v100"), "int8", False)
    with pytest.raises(ModelError, match="produces no tokens"):
        serve_on(_task(output=3), A100, batches=[1], limit=None)
    with pytest.raises(CatalogError, match="unknown engine 'onnx'"):
        load_engine("onnx")
    with pytest.raises(TableError, match="no latencies of revision"):
        latency_rows("nothing")
    assert set(REVISIONS) == set(engine_names())


def test_triton_says_shapes_groups_and_delay() -> None:
    task = _task(precision="int8")
    served = serve_on(task, SLICE, batches=[1, 8], limit=0.05, instances=7)
    text = config_text(served)
    assert 'name: "bert_large"' in text
    assert f"max_batch_size: {served.best.batch}" in text  # type: ignore[union-attr]
    assert "count: 1 kind: KIND_GPU gpus: [ 0 ]" in text
    assert text.count("{") == text.count("}")
    assert text.count("[") == text.count("]")
    whole = serve_on(task, A100, batches=[8], limit=None, instances=4)
    assert "gpus: [ 0, 1, 2, 3 ]" in config_text(whole)
    images = replace(served, kind="images", tokens=224)
    assert "dims: [ 3, 224, 224 ]" in config_text(images)
    assert 'backend: "tensorrtllm"' in config_text(replace(served, kind="generator"))
