"""One list of constants, and what a change of one does."""

from __future__ import annotations

import numpy as np
import pytest
from reference.registry import kernel_files, registry
from reference.registry_change import changed_fabric, changed_kernels, changed_software, kernel_origin
from reference.sensitivity import sensitivity
from reference.sensitivity_report import sensitivity_report

from podsim.accuracy.calibration import software_entry
from podsim.errors import CatalogError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import load_cluster
from podsim.kernels.gemm import gemm_seconds
from podsim.network.nccl import Members, collective_seconds
from podsim.report.screen import report_text
from podsim.training.software import load_software

NAMES = {constant.name: constant for constant in registry()}


def test_constants_have_one_name_a_unit_and_a_source() -> None:
    assert len(NAMES) == len(registry()) > 300
    for constant in NAMES.values():
        assert constant.unit in ("1", "s", "B", "B/s"), constant
        assert constant.source, constant
        assert constant.evidence or constant.name.startswith("software."), constant
        assert np.isfinite(constant.value)


def test_values_are_those_the_laws_use() -> None:
    for name, constant in NAMES.items():
        group, software, *rest = name.split(".")
        if group == "software" and software != "default" and len(rest) == 1:
            assert getattr(load_software(software), rest[0]) == constant.value
    assert software_entry("megatron-2022") == load_software("megatron-2022")
    with pytest.raises(CatalogError, match="megatron"):
        software_entry("megatron-1999")


def test_a_changed_ceiling_slows_large_products_and_is_put_back() -> None:
    gpu = load_gpu("a100-sxm4-80gb")
    before = gemm_seconds(gpu, 8192, 8192, 8192)
    with changed_kernels(kernel_files(), "a100-sxm4-80gb", "gemm.bf16", "ceiling", 0.5):
        assert gemm_seconds(gpu, 8192, 8192, 8192) > 1.5 * before
    with changed_kernels(kernel_files(), "h100-sxm5-80gb", "gemm.bf16", "ceiling", 0.5):
        assert gemm_seconds(gpu, 8192, 8192, 8192) == before
    assert gemm_seconds(gpu, 8192, 8192, 8192) == before


def test_tables_of_constants_are_traced_to_their_file() -> None:
    raw = {"a": {"gemm": {"bf16": {}}, "memory": {"share": {}}}, "b": {"base": "a", "gemm": {"fp8": {}}}}
    assert kernel_origin(raw, "b", "gemm.fp8") == "b"
    assert kernel_origin(raw, "b", "gemm.bf16") == "a"
    assert kernel_origin(raw, "b", "memory") == "a"
    assert kernel_origin(raw, "b", "flash.flash2") == ""


def test_a_changed_fabric_slows_collectives_and_is_put_back() -> None:
    cluster = load_cluster("dgx-a100-80gb:1")

    def seconds() -> float:
        return float(collective_seconds("all_reduce", 2**30, cluster, Members(ranks=8, ranks_per_node=8)))

    before = seconds()
    with changed_fabric("fabrics", "ampere", "share_simple", 0.5):
        assert seconds() > 1.2 * before
    assert seconds() == before


def test_a_changed_software_reaches_those_that_inherit_it() -> None:
    entries = changed_software("software.megatron-2021.host_step", 2.0)
    assert entries["megatron-2021"][""].host_step == pytest.approx(
        2 * load_software("megatron-2021").host_step
    )
    inherits = load_software("megatron-2022").host_step == load_software("megatron-2021").host_step
    doubled = entries["megatron-2022"][""].host_step == pytest.approx(
        2 * load_software("megatron-2022").host_step
    )
    assert doubled is inherits
    assert entries["llm-foundry-2023"][""] == load_software("llm-foundry-2023")


def test_sensitivity_tells_what_moves_and_what_does_not() -> None:
    chosen = [
        NAMES["software.megatron-2022.gemm_speed"],
        NAMES["kernels.a100-sxm4-80gb.gemm.bf16.ceiling"],
        NAMES["kernels.gb200.gemm.bf16.ceiling"],
        NAMES["fabrics.ampere.share_simple"],
    ]
    speed, ceiling, unused, share = sensitivity(["korthikanti", "vtrain-multi"], constants=chosen)
    assert {moved.table for moved in speed.moved} == {"korthikanti"}
    assert all(0.01 < moved.prediction < 0.06 for moved in speed.moved)
    assert {moved.table for moved in ceiling.moved} == {"korthikanti", "vtrain-multi"}
    assert {moved.role for moved in ceiling.moved} == {"test", "calibrate"}
    assert not unused.moved
    assert share.moved
    text = report_text(sensitivity_report([speed, ceiling, unused, share]), 140)
    assert "1 of 4 constants move no table:\n  kernels.gb200.gemm.bf16: all" in text


def test_sensitivity_of_rates() -> None:
    """A rate is the work over the seconds: what is faster moves it up."""
    (effect,) = sensitivity(
        ["megatron-readme-h100"], constants=[NAMES["software.megatron-core.hopper.gemm_speed"]]
    )
    (moved,) = effect.moved
    assert (moved.table, moved.role) == ("megatron-readme-h100", "test")
    assert 0.03 < moved.prediction < 0.05


def test_sensitivity_of_captured_networks() -> None:
    chosen = [
        NAMES["software.mlperf-mxnet.conv_speed"],
        NAMES["kernels.v100-sxm2-16gb.gemm.fp16.share_256x128"],
        NAMES["software.megatron-2022.gemm_speed"],
        NAMES["kernels.h100-sxm5-80gb.gemm.bf16.ceiling"],
    ]
    speed, share, other, hopper = sensitivity(["mlperf-v0.7"], constants=chosen)
    assert {moved.table for moved in speed.moved} == {"mlperf-v0.7"}
    assert {moved.role for moved in speed.moved} == {"test", "calibrate"}
    assert all(0.0001 < moved.prediction < 0.05 for moved in share.moved)
    assert share.moved
    assert not other.moved
    assert not hopper.moved
