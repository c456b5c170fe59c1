"""`podsim kernel`: one kernel, its share of the roofline, and what was measured near it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import podsim
from podsim.cli import app
from podsim.errors import PlanError, PodsimError
from podsim.hardware.catalog import load_gpu

ASKED = {
    "gemm": "4096x4096x4096", "attention": "8x4096", "decode": "64x4096", "mla": "8x4096", "mla-decode": "64x4096",
    "moe": "512", "norm": "8192x4096", "elementwise": "8192x4096",
}  # fmt: skip


@pytest.mark.parametrize("gpu", ["a100", "h200", "b300"])
@pytest.mark.parametrize("kernel", ASKED)
def test_no_kernel_beats_the_speed_of_light(kernel: str, gpu: str) -> None:
    time = podsim.kernel(kernel, ASKED[kernel], on=gpu)
    assert 0.02 < time.share <= 1.0
    assert time.source


def test_a_measured_kernel_is_its_own_nearest() -> None:
    time = podsim.kernel(
        "gemm", "8192x65536x51200", on="h100", engine="trtllm"
    )  # the first row of h100_sxm_gemm_trtllm
    assert time.nearest[0].id == "h100_sxm_gemm_trtllm/2"
    assert time.nearest[0].distance == 0
    assert time.nearest[0].measured == pytest.approx(79.185e-3)


@pytest.mark.parametrize("gpu", ["a100-sxm4-80gb", "v100-sxm2-16gb", "b300"])
def test_a_product_takes_every_precision_of_the_sheet(gpu: str) -> None:
    for precision in load_gpu(gpu).peaks:
        time = podsim.kernel("gemm", "4096x4096x4096", on=gpu, dtype=precision)
        assert time.light <= time.seconds < 40 * time.light
        assert time.rounding is not None


def test_fp64_of_an_a100_is_as_published() -> None:
    """SuperBench measured 18.9 TFLOP/s on NDv4, of 19.5 by tensor cores; a product of 8192 takes 58.2 ms at that rate."""
    time = podsim.kernel("gemm", "8192x8192x8192", on="a100", dtype="fp64")
    assert time.seconds == pytest.approx(2 * 8192**3 / 18.9e12, rel=0.1)


def test_one_line_says_all_of_a_product() -> None:
    arguments = ["kernel", "gemm", "4096x4096x4096", "--on", "a100", "--dtype", "tf32"]
    text = CliRunner().invoke(app, arguments, env={"COLUMNS": "80", "NO_COLOR": "1"}).output
    line = next(line for line in text.splitlines() if line.strip().startswith("time"))
    assert all(word in line for word in ("ms (", "of roofline", "nearest", "rounding 0.00027"))


def test_another_gpu_says_whose_law_it_takes() -> None:
    assert "with the peaks of h200" in podsim.kernel("decode", "64x4096", on="h200").source


@pytest.mark.parametrize(
    ("kernel", "shape", "more", "match"),
    [
        ("gemm", "8x8", {}, "mxnxk"), ("attention", "8x0", {}, "batch_sizexisl"), ("moe", "8", {"top": 200}, "experts"),
        ("decode", "8x8", {"heads": 5, "kv_heads": 2}, "multiple"), ("gem", "8x8x8", {}, "may be"),
        ("gemm", "8x8x8", {"engine": "sglang"}, "trtllm"), ("gemm", "8x8x8", {"dtype": "fp7"}, "number format"),
    ],
)  # fmt: skip
def test_sizes_that_are_none_are_refused(
    kernel: str, shape: str, more: dict[str, object], match: str
) -> None:
    with pytest.raises((PlanError, PodsimError), match=match):
        podsim.kernel(kernel, shape, on="h100", **more)
