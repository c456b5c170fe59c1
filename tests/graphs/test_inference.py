"""The law of inference, and how rows of inference are read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reference.curate_inference import inference_cells
from reference.curate_networks import canonical

from podsim.accuracy.measured_runs import NotExpressible
from podsim.accuracy.price_inference import price_inference, read_inference_run
from podsim.embeddings.tables import table_sets
from podsim.errors import CatalogError, PlanError
from podsim.graphs.graph_step import ReplicasStep, fed_step, loading_seconds
from podsim.graphs.inference import (
    Engine,
    ServedWork,
    engines,
    gpu_family,
    load_engine,
    load_serving,
    served_batch,
    served_seconds,
    served_work,
)
from podsim.graphs.networks import load_network
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import load_cluster
from podsim.questions.train.graph import graph
from podsim.training.software import load_software

ROW = {
    "model": "LanguageModeling/BERT/triton/large", "framework": "PyTorch", "task": "infer", "gpu": "A30-24GB",
    "n_gpus": "1", "precision": "FP16/mixed", "batch_per_gpu": "8", "unit": "Inferences/Second",
    "throughput": "252.0", "latency_ms": "31.6", "notes": "concurrency=1; triton backend=NVIDIA TensorRT; section: x",
}  # fmt: skip


@pytest.mark.parametrize("name", engines())
def test_a_larger_batch_takes_longer_and_less_a_sample(name: str) -> None:
    engine, serving, gpu = engines()[name], load_serving(), load_gpu("t4")
    seconds = [
        served_seconds(served_work("resnet50", batch, gpu, "fp16", engine.fuse), engine, serving, "t4")
        for batch in (1, 8, 64)
    ]
    assert seconds == sorted(seconds)
    assert seconds[2] / 64 < seconds[1] / 8 < seconds[0]


def test_only_the_forward_pass_is_priced() -> None:
    work = served_work("resnet50", 8, load_gpu("a100-sxm4-80gb"), "fp16", "none")
    assert work.kernels == load_network("resnet50", 8).kernels.sum()
    assert work.products[0] > 0 == work.products[2]


def test_a_gpu_without_a_precision_computes_in_the_next() -> None:
    volta = load_gpu("v100-sxm2-16gb")
    assert served_work("resnet50", 8, volta, "int8", "all") == served_work(
        "resnet50", 8, volta, "fp16", "all"
    )
    with pytest.raises(PlanError, match="measured on a100, a30, t4, v100"):
        gpu_family(load_gpu("h100-sxm5-80gb"), load_serving())


def test_waiting_requests_are_served_together() -> None:
    serving = replace(load_serving(), gather=1.0)
    assert [served_batch(2, concurrency, serving) for concurrency in (1, 3, 9)] == [2, 4, 10]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ("bert-large-384", "a30", "tensorrt-triton", "fp16", 8, 1)),
        ({"notes": "concurrency=16; ONNX Runtime TensorRT", "batch_per_gpu": ""},
         ("bert-large-384", "a30", "onnx-tensorrt", "fp16", 1, 16)),
        ({"model": "BERT Base", "framework": "TensorRT", "precision": "INT8 QAT", "seq_len": "128", "notes": ""},
         ("bert-base-questions-128", "a30", "tensorrt", "int8", 8, 1)),
        ({"model": "ResNet-50 v1.5", "gpu": "NVIDIA A100-SXM4-40GB", "notes": "MIG 1g.5gb", "latency_ms": ""},
         ("resnet50", "a100-sxm4-40gb/1g.5gb", "pytorch", "fp16", 8, 1)),
    ],
)  # fmt: skip
def test_rows_are_read_as_their_sources_word_them(
    change: dict[str, str], expected: tuple[object, ...]
) -> None:
    cells = inference_cells({**ROW, **change})
    run = read_inference_run(cells)
    read = (run.network, cells["cluster"], run.engine, run.precision, run.batch, run.concurrency)
    assert read == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"throughput": "0.000252"}, "contradict each other"),
        ({"unit": "tok/s"}, "counts tokens"),
        ({"model": "Detection/SSD"}, "non-maximum suppression"),
        ({"gpu": "P100"}, "not measured on a GPU of the catalog like 'P100'"),
        ({"batch_per_gpu": "many"}, "is not a number"),
        ({"precision": "posit8"}, "is not one of"),
        ({"model": "BERT Large", "seq_len": "77"}, "128 and 384"),
    ],
)
def test_what_cannot_be_predicted_has_its_reason(change: dict[str, str], words: str) -> None:
    with pytest.raises(NotExpressible, match=words):
        inference_cells({**ROW, **change})
    rows = {"good": described(ROW), "bad": described({**ROW, **change})}
    predictions, reasons = price_inference(rows.items(), "samples/s")
    assert predictions.keys() == {"good"}
    assert reasons.keys() == {"bad"}


def described(row: dict[str, str]) -> dict[str, str]:
    """The row in podsim's words, or with its reason."""
    return canonical("vision", {"time_to_train_h": "", **row})


def test_seconds_of_a_batch_by_hand() -> None:
    """Products of 8, 3, 4 and 5 s at 2, 1, 4 and 5 times the speed are 9 s; 12 s of bytes at 3/4 are 16 s more.

    Of a GPU at 1.25 of the others that is 20 s, beside 15 kernels of 1 s: 25 s together; 8 B at 4 B/s, 1 s a request.
    """
    engine = Engine(
        name="e", title="", fuse="all", host_kernel=1.0, request=1.0, copy_rate=4.0, conv_speed=2.0, attention_speed=4.0,
        recurrent_speed=5.0, memory_speed=0.5, blend=2.0, gpus={"ampere": 1.25},
    )  # fmt: skip
    serving = replace(
        load_serving(),
        products={"ampere": 1.0, "volta": 2.0},
        memory={"ampere": 1.5, "volta": 1.5},
        overlap=0.25,
        int8=0.5,
    )
    work = ServedWork(
        products=(8.0, 3.0, 4.0, 5.0),
        memory=12.0,
        kernels=15.0,
        bytes=8.0,
        is_int8=False,
        flops=1.0,
        peak=1.0,
    )
    assert served_seconds(work, engine, serving, "ampere") == pytest.approx(1 + 2 + 25)
    assert served_seconds(work, engine, serving, "ampere", concurrency=2) == pytest.approx(1 + 0.5 + 25)
    alone = replace(work, kernels=0.0)
    assert served_seconds(alone, engine, serving, "volta") == pytest.approx(3 + 9 / 2 + 16)
    assert served_seconds(replace(alone, is_int8=True), engine, serving, "volta") == pytest.approx(3 + 9 + 16)


def test_an_unknown_engine_has_a_close_name() -> None:
    known = next(iter(engines()))
    assert load_engine(known).name == known
    with pytest.raises(CatalogError, match=f"did you mean {known}"):
        load_engine(known + "x")


def test_latency_and_rate_are_one_prediction() -> None:
    ((_, rate),) = price_inference([("row", described(ROW))], "samples/s")[0].items()
    ((_, seconds),) = price_inference([("row", described(ROW))], "seconds")[0].items()
    assert rate * seconds == pytest.approx(8)


def test_engines_that_load_beside_the_step_take_the_longer_time() -> None:
    step = ReplicasStep(seconds=0.3, alone=0.3, update=0.0, reduction=None, tables=0.0)
    torch, mxnet = (load_software(name) for name in ("dle-pytorch", "dle-mxnet"))
    assert fed_step(step, 0.2, torch).seconds == pytest.approx(0.5)
    assert fed_step(step, 0.2, mxnet).seconds == pytest.approx(0.3)
    assert fed_step(step, 0.4, mxnet).seconds == pytest.approx(0.4)


def test_loading_adds_to_a_step_on_many_gpus() -> None:
    cluster = load_cluster("dgx-1-v100-16gb:1")
    native, dali, none = (
        loading_seconds("resnet50", 256, cluster, 8, name) for name in ("native", "dali", "synthetic")
    )
    assert native == pytest.approx(8 * 256 * 2.6e-3 / 40)
    assert native > dali > none == 0.0
    assert loading_seconds("bert-large-384", 8, cluster, 8, "native") == 0.0
    assert loading_seconds("resnet50", 256, cluster, 4, "native") == pytest.approx(native / 2)
    slow = graph("resnet50", on="dgx-1-v100-16gb:1", batch=256, precision="fp16", fuse="all", loader="native")
    fast = graph(
        "resnet50", on="dgx-1-v100-16gb:1", batch=256, precision="fp16", fuse="all", loader="synthetic"
    )
    assert slow.data_parallel is not None
    assert fast.data_parallel is not None
    assert slow.data_parallel.step_time == pytest.approx(native + fast.data_parallel.step_time)


def test_a_step_that_does_not_fit_names_a_batch_that_does() -> None:
    full = graph("resnet50", on="a100-sxm4-40gb", batch=4096).memory
    assert not full.fits
    assert graph("resnet50", on="a100-sxm4-40gb", batch=full.largest_batch).memory.fits
    assert not graph("resnet50", on="a100-sxm4-40gb", batch=full.largest_batch + 1).memory.fits


def test_tables_of_a_recommender_are_divided_over_the_gpus() -> None:
    """Balanced by time, so the fullest GPU holds at least its share, and on more GPUs less."""
    alone, divided = (graph("dlrm", on=f"dgx-a100-80gb:{n}", batch=64).memory.tables for n in (1, 2))
    known = table_sets()["criteo-40m"].bytes
    assert known / 8 <= alone < known / 4
    assert known / 16 <= divided < alone
