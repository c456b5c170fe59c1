"""Parts of training that few plans reach, as they were recorded: wafers, words of users, eras of software, fits."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_values import check, sums

from podsim.errors import PodsimError
from podsim.hardware.catalog import names
from podsim.hardware.cluster import load_cluster
from podsim.hardware.parts import PRECISIONS
from podsim.network.fit_nccl import fabric_texts, fit_fabrics, samples, start_constants
from podsim.network.nccl_constants import load_fabric
from podsim.network.settings_text import (
    read_debug_lines,
    read_environment,
    read_launch,
    read_network_class,
    read_nics,
    read_release,
)
from podsim.training.frameworks import framework_software
from podsim.training.job_inputs import batch_of, read_sequence
from podsim.training.plan import Plan
from podsim.training.software import holds, load_software, software_names
from podsim.training.weight_streaming import streamed_plans, streamed_prediction
from podsim.workload.catalog import load_model
from podsim.workload.finetuning import fine_tuned

FILE = Path(__file__).with_name("small_laws.json.gz")


def said(call: Any) -> Any:
    """What a call gives, or its refusal."""
    try:
        return call()
    except PodsimError as problem:
        return str(problem)


@pytest.mark.parametrize("train", ["full", "lora:8", "frozen:4"])
@pytest.mark.parametrize("on", ["cs-2:1", "cs-2:4", "cs-3:2", "andromeda"])
@pytest.mark.parametrize("name", ["gpt2", "cerebras-gpt-111m", "cerebras-gpt-13b", "llama-3.1-8b"])
def test_weights_stream_as_recorded(name: str, on: str, train: str) -> None:
    model, cluster = fine_tuned(load_model(name), train), load_cluster(on)
    told: list[Any] = []
    for micro, mode, precision in product((1, 3), (0, 1, 2), ("bf16", "fp16")):
        plan = Plan(
            dp=cluster.gpus,
            micro_batch=micro,
            global_batch=6 * micro * cluster.gpus,
            recompute=mode,
            precision=precision,
            software="weight-streaming",
        )
        told.append(said(lambda plan=plan: asdict(streamed_prediction(model, cluster, plan))))
    plan = Plan(global_batch=12 * cluster.gpus, software="weight-streaming")
    for wanted in ({}, {"micro_batch": (2, 3)}, {"micro_batch": (5,)}):
        told.append(
            said(
                lambda wanted=wanted: [
                    each.describe() for each in streamed_plans(model, cluster, plan, wanted)
                ]
            )
        )
    check(FILE, f"stream {name} {on} {train}", told)


def test_batches_as_users_word_them() -> None:
    words = (
        None,
        1,
        512,
        0,
        True,
        10_000_001,
        "1024",
        "1_024 seqs",
        "3 samples",
        "4M",
        "0.5M",
        "512k tokens",
        "100",
        "2,000,000 tok",
        "x",
        "1k",
    )
    told = [
        said(lambda word=word, length=length, gpus=gpus: batch_of(word, length, gpus))
        for word, length, gpus in product(words, (512, 3000, 8192, 1 << 23), (1, 12, 56, 96, 4480, 9 << 20))
    ]
    told += [
        said(lambda word=word: read_sequence(word))
        for word in (
            8192,
            "8k",
            "8K",
            "0.5k",
            "1.3k",
            "128Ki",
            "1M",
            "2mi",
            "4,096 tokens",
            "1_000 token",
            "k",
            "",
            True,
            None,
            "8kb",
            "0.3",
        )
    ]
    check(FILE, "words", told)


def test_eras_of_frameworks() -> None:
    frameworks = (
        "Megatron-LM",
        "megatron core",
        "NeMo v24.11.1",
        "nemo 25.04",
        "nemo",
        "PyTorch",
        "torchtitan",
        "torchtitan 0.2",
        "TensorFlow 2",
        "tensorflow",
        "mxnet",
        "JAX",
        "MaxText",
        "DeepSpeed",
        "HugeCTR",
        "merlin",
        "InternEvo",
        "llm-foundry",
        "nothing",
        *software_names(),
    )
    told = [
        framework_software(name, year)
        for name, year in product(frameworks, (None, 2017, 2019, 2021, 2022, 2023, 2024, 2025, 2026))
    ]
    check(FILE, "eras", told)


@pytest.mark.parametrize("gpu", names("gpu"))
def test_software_on_a_gpu(gpu: str) -> None:
    part = load_cluster(gpu).gpu
    told = [
        asdict(load_software(name, part, precision))
        for name, precision in product(software_names(), ("", "bf16", "fp8", "fp32"))
    ]
    numbers = [value for entry in told for value in entry.values() if isinstance(value, (int, float))]
    tables = {"", "fp8", gpu, part.architecture, f"{part.architecture}-fp8", f"{part.architecture}-bf16"}
    picked = [
        holds({"", *pair}, part, each) for pair in product(sorted(tables), repeat=2) for each in PRECISIONS
    ]
    check(FILE, f"software {gpu}", [sums(numbers), picked])


WORDS = (
    "NCCL_ALGO=RING;NCCL_PROTO=LL128",
    "NCCL_ALGO=^Tree,NVLS NCCL_PROTO=^LL",
    "NCCL_ALGO=allreduce:tree",
    "NCCL_ALGO=Magic",
    "NCCL_TREE_THRESHOLD=0",
    "NCCL_NVLS_ENABLE=0",
    "NCCL_NVLS_ENABLE=0 NCCL_ALGO=nvls",
    "NCCL_IB_HCA=mlx5_0..7",
    "NCCL_IB_HCA=^mlx5_0",
    "NCCL_IB_HCA==mlx5_0:1,mlx5_2:1,mlx5_2:2",
    "NCCL_IB_HCA=8 HCAs",
    "NCCL_IB_HCA=mlx5",
    "NCCL_IB_DISABLE=1",
    "NCCL_IB_DISABLE=0",
    "NCCL_IB_DISABLE=1 NCCL_NET=FasTrak",
    "NCCL_NET=IB",
    "NCCL_NET=Socket",
    "FI_PROVIDER=cxi",
    "FI_PROVIDER=efa",
    "FI_CXI_ATS=0",
    "FI_CXI_ATS=0 NCCL_NET=Socket",
    "FI_EFA_FORK_SAFE=1",
    "FI_EFA_USE_DEVICE_RDMA=1",
    "FI_EFA_USE_DEVICE_RDMA=0",
    "NCCL_NET_GDR_LEVEL=LOC",
    "NCCL_NET_GDR_LEVEL=SYS",
    "NCCL_NET_GDR_LEVEL=0",
    "NCCL_IB_CUDA_SUPPORT=0",
    "NCCL_IB_CUDA_SUPPORT=1",
    "NCCL_COLLNET_ENABLE=1",
    "NCCL_COLLNET_ENABLE=0",
    "NCCL_TUNER_PLUGIN=none",
    "NCCL_MIN_CTAS=16",
    "",
    "NCCL version 2.18.5+cuda12.2",
    "NCCL version: 2.27",
    "Channel 00 : 0 -> 8 via NET/IB/0/GDRDMA",
    "Channel 00 : 0 -> 8 via NET/IB/0",
    "Channel 01 via NET/AWS Libfabric/1/GDRDMA EFA",
    "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE\nUsing network IB",
    "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB\nUsing network IB",
    "Using network AWS Libfabric\nSelected Provider is efa",
    "Selected provider is cxi",
    "NET/Plugin: EFA with Libfabric",
    "CollNet/SHARP rail 0",
    "via COLLNET/SHARP/0",
    "NCCL_ALGO set by environment to Ring.",
    "1 thread",
    "8 threads",
    "-t 8 -g 1",
    "-g 8",
    "one process per GPU",
    "a process for each rank",
    "1 rank per GPU",
    "single process for all",
    "process",
    "THREAD",
    "2.8-2.17",
    "v2.21.5",
    "12.2.14",
    "2.3",
    "2.41.1",
    "8x 200GbE TCPXO",
    "4x 200GbE TCPX",
    "EFAv2",
    "EFA v1 4x100",
    "EFA",
    "Slingshot 11",
    "ConnectX-6 RoCE",
    "8x HDR200 IB",
    "NDR400",
    "25GbE TCP",
    "4x100Gb/s",
    "8",
    "200 Gb/s",
    "8 x 25GB/s",
    "x",
    "4x",
    "4x fast",
)


@pytest.mark.parametrize(
    "reader", [read_environment, read_debug_lines, read_launch, read_network_class, read_nics, read_release]
)
def test_settings_as_logs_say_them(reader: Any) -> None:
    told = [said(lambda word=word: reader(word)) for word in WORDS]
    check(FILE, reader.__name__, [asdict(each) if hasattr(each, "stated") else each for each in told])


def row(gpu: str, collective: str, size: float, seconds: float, **more: str) -> dict[str, str]:
    plain = {
        "role": "calibrate",
        "id": f"{gpu}-{collective}",
        "gpu": gpu,
        "nodes": "1",
        "gpus": "8",
        "collective": collective,
        "algo": "auto",
        "size_bytes": str(size),
        "time_us": str(1e6 * seconds),
        "algbw_GBps": str(size / seconds / 1e9),
    }
    return plain | more


def test_a_fit_to_made_sweeps() -> None:
    pytest.importorskip("scipy")
    rows = [
        row(gpu, collective, size, 2e-5 + size / rate)
        for gpu, rate in (("A100-SXM4-80GB", 2e11), ("H100-SXM5-80GB", 4e11), ("B200", 7e11))
        for collective in ("all_reduce", "alltoall")
        for size in (1e3, 1e9)
    ]
    odd = [
        row("A100-SXM4-80GB", "all_gather", 1e6, 1e-4, time_us=""),
        row("A100-SXM4-80GB", "sendrecv", 1e6, 1e-4, launch="thread", nccl="2.10"),
        row("A100-SXM4-80GB", "all_reduce", 256, 1e-5),
        row("A100-SXM4-80GB", "all_reduce", 1e6, 1e-4, algo="ring", in_switch="no"),
        row("A100-SXM4-80GB", "all_reduce", 1e6, 1e-4, confirmed="threshold"),
        row("A100-SXM4-80GB", "barrier", 1e6, 1e-4),
        row("Z80", "all_reduce", 1e6, 1e-4),
        row("A100-SXM4-80GB", "all_reduce", 1e6, 1e-4, reason="slow", role="calibrate"),
        row("A100-SXM4-80GB", "all_reduce", 1e6, 1e-4, nodes="2", gpus="16"),
    ]
    told = samples([*rows, *odd])
    check(FILE, "samples", [asdict(each) for each in told])
    for is_own in (False, True):
        fitted = fit_fabrics([*(rows[:6] if is_own else rows), *odd], is_own=is_own)
        assert set(fabric_texts(fitted)) <= {"ampere.toml", "hopper.toml", "blackwell.toml", "pcie.toml"}
        check(FILE, f"evidence {is_own}", [fitted.evidence, list(fitted.fabrics)])
        if not is_own:
            for name, text in fabric_texts(fitted).items():
                assert text.startswith("# Collectives inside a node of")
                assert f'architecture = "{name.removesuffix(".toml")}"' in text
                assert text.count("unit = ") == len(vars(load_fabric("ampere")))
                assert text.endswith("}\n")


@pytest.mark.parametrize("architecture", ["ampere", "hopper", "blackwell"])
def test_where_a_fit_starts(architecture: str) -> None:
    ampere = replace(load_fabric("ampere"), share_simple=0.5)
    hopper = replace(load_fabric("hopper"), nvls_share=0.5)
    told = [
        vars(start_constants(architecture, known))
        for known in ({}, {"ampere": ampere}, {"ampere": ampere, "hopper": hopper})
    ]
    check(FILE, f"start {architecture}", told)
    assert np.isfinite(list(told[0].values())).all()
