"""Files of constants: complete, sourced, quick; and their fit from rows."""

from __future__ import annotations

import importlib
import math
import time
import tomllib
from dataclasses import astuple, replace
from importlib.resources import as_file, files

import numpy as np
import pytest

from podsim.fitting import Fit
from podsim.hardware.catalog import load_gpu, names
from podsim.kernels.constants import Evidence, kernel_constants, known_kernels, load_constants
from podsim.kernels.constants_file import constants_text, write_constants
from podsim.kernels.fit_kernels import cross_validate, fit_gpu
from podsim.kernels.fit_products import law_seconds
from podsim.kernels.gemm import gemm_seconds
from podsim.kernels.measured_kernels import KernelRows, kernel_rows, read_rows

A100 = load_gpu("a100-sxm4-80gb")
HEAD, TAIL = "sms = 108\n[memory]\n", "[memory.evidence]\nsources = ['x']"


@pytest.fixture(scope="module")
def rows() -> KernelRows:
    with as_file(files("podsim.accuracy.tables") / "kernels.csv.gz") as path:
        return read_rows(path)


@pytest.mark.parametrize("name", known_kernels())
def test_every_file_is_sourced(name):
    constants = load_constants(name)
    is_measured = not name.startswith("tpu")  # of TPUs few kernels were published: most is stated as assumed
    assert constants.made_by.startswith("podsim calibrate") or not is_measured
    for table, evidence in constants.evidence.items():
        assert all(evidence.sources), table
        assert evidence.rows >= is_measured
    for tables in (constants.gemm, constants.flash):
        for values in tables.values():
            assert all(math.isfinite(v) and v >= 0 for v in astuple(values))


@pytest.mark.parametrize("name", names("gpu"))
def test_every_gpu_of_the_catalog_has_constants(name):
    gpu = load_gpu(name)
    if gpu.architecture == "wafer":
        return
    constants = kernel_constants(gpu)
    measured = gpu.kernels or name
    is_rate_alone = measured == "mi300x"  # one published rate, no product
    assert constants.extrapolated == (is_rate_alone or measured not in known_kernels())
    precision = "bf16" if "bf16" in gpu.peaks else "fp16"
    assert 0 < float(gemm_seconds(gpu, 4096, 4096, 4096, precision=precision)) < 1


def test_a_file_is_extrapolated_where_it_says_so():
    """The file of the MI300X says it; the others were measured."""
    assert {name for name in known_kernels() if load_constants(name).extrapolated} == {"mi300x"}


def test_loading_is_quick():
    load_constants.cache_clear()
    start = time.perf_counter()
    load_constants("a100-sxm4-80gb")
    assert time.perf_counter() - start < 0.1  # 3 ms on a quiet machine


def test_unknown_names_and_architectures():
    with pytest.raises(ValueError, match="did you mean a100-sxm4-80gb"):
        kernel_constants(replace(A100, kernels="a100-sxm-80gb"))
    with pytest.raises(ValueError, match="nor has any of architecture 'graphcore'; give it kernels="):
        kernel_constants(replace(A100, kernels="", name="ipu", architecture="graphcore"))


@pytest.mark.parametrize(("text", "message"), [
    (HEAD + "share = { value = 0.8, unit = 'B' }\n" + TAIL, "share must be"),
    (HEAD + "speed = { value = 1, unit = '1' }\n" + TAIL, "unknown constant"),
    ("base = 'a100-sxm4-80gb'\n" + HEAD + "share = { value = 0.8, unit = '1' }", "must name its sources"),
    (HEAD + "share = { value = 0.8, unit = '1' }\n" + TAIL, "missing startup"),
    ("sms = 108", "no base to take it from"),
    ("sms = ", "cannot be read"),
    ("base = 'a100-sxm4-80gb'", "cannot be read"),
])  # fmt: skip
def test_broken_files(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("'", '"'), "utf-8")
    with pytest.raises(ValueError, match=message):
        load_constants(str(path))
    load_constants.cache_clear()


def test_written_constants_are_read_back(tmp_path):
    constants = load_constants("h100-sxm5-80gb")
    path = write_constants(constants, tmp_path)
    again = load_constants(str(path))
    assert again.gemm == constants.gemm
    assert again.flash == constants.flash
    assert again.memory == constants.memory
    assert again.evidence == constants.evidence
    assert np.abs(again.corrections["bf16"].logs - constants.corrections["bf16"].logs).max() < 1e-4
    mine = replace(load_gpu("h100-sxm5-80gb"), kernels=str(path))
    assert float(gemm_seconds(mine, 777, 4096, 4096)) == pytest.approx(
        float(gemm_seconds(load_gpu("h100-sxm5-80gb"), 777, 4096, 4096))
    )


def test_text_quotes_evidence():
    odd = Evidence(rows=1, median_error=0.0, mean_error=0.0, sources=('a "quoted" source',), note='say "so"')
    text = constants_text(replace(load_constants("b200"), evidence={"gemm.bf16": odd}))
    evidence = tomllib.loads(text)["gemm"]["bf16"]["evidence"]
    assert evidence["sources"] == ['a "quoted" source']
    assert evidence["note"] == 'say "so"'


@pytest.mark.parametrize(("name", "value", "is_written"), [
    ("h100-sxm5-80gb", None, False), ("h100-sxm5-80gb", 0.5, True), ("a100-sxm4-80gb", None, True),
])  # fmt: skip
def test_a_file_states_what_is_not_lent(name, value, is_written):
    """The clock of long runs is lent by the A100 to GPUs without a measurement of it."""
    constants = load_constants(name)
    changed = constants.gemm["bf16"] if value is None else replace(constants.gemm["bf16"], sustained=value)
    text = constants_text(replace(constants, gemm=constants.gemm | {"bf16": changed}))
    assert ("sustained" in tomllib.loads(text)["gemm"]["bf16"]) == is_written


def test_an_instance_has_its_share_of_the_bytes_in_flight():
    whole, half = kernel_constants(A100), kernel_constants(replace(A100, fraction=0.5))
    assert half.memory == replace(whole.memory, startup=whole.memory.startup / 2)
    assert half.gemm["bf16"] == replace(whole.gemm["bf16"], startup=whole.gemm["bf16"].startup / 2)


def test_a_published_rate_is_the_ceiling():
    """The GB200 has one, 1,822 TFLOP/s (ml-engineering); the rest is that of the GPU it starts from."""
    gpu = load_gpu("gb200")
    nothing = made_rows(A100, [(8, 8, 8)], [1e-6])
    fitted = fit_gpu(nothing, gpu)
    base = load_constants(fitted.base).gemm["bf16"]
    assert fitted.extrapolated
    assert fitted.gemm["bf16"] == replace(base, ceiling=1822e12 / gpu.peaks["bf16"])


def made_rows(gpu, shapes, seconds, precision="bf16"):
    table = [{"gpu": gpu.name, "op": "gemm", "dtype": precision, "source": "made", "m": str(m), "n": str(n),
              "k": str(k),
              "latency_ms": str(s * 1e3)} for (m, n, k), s in zip(shapes, seconds, strict=True)]  # fmt: skip
    return kernel_rows(table)


def test_a_fit_follows_a_slower_board(tmp_path):
    """Kernels 15 % slower than another board's: sixty rows tell, and foretell sizes between them."""
    board = replace(A100, name="a100-custom", kernels="a100-sxm4-80gb")
    shapes = [
        (m, n, k)
        for m in (1024, 2048, 4096, 8192)
        for n in (1536, 4096, 6400, 12288, 1024)
        for k in (2048, 4096, 8192)
    ]
    m, n, k = np.array(shapes, float).T
    slow = gemm_seconds(board, m, n, k) / 0.85
    fitted = fit_gpu(made_rows(board, shapes, slow), board)
    assert fitted.base == "a100-sxm4-80gb"
    mine = replace(board, kernels=str(write_constants(fitted, tmp_path)))
    others = (np.array([1536.0, 3072, 6144])[:, None], np.array([2048.0, 5120, 8192]), 3072)
    ratio = gemm_seconds(mine, *others) * 0.85 / gemm_seconds(board, *others)
    assert np.median(np.abs(ratio - 1)) < 0.03
    assert fitted.evidence["gemm.bf16"].median_error < 0.03
    assert "memory" not in fitted.evidence
    assert fitted == fit_gpu(made_rows(board, shapes, slow), board)


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_a_dozen_rows_of_a_slower_board_tell(precision):
    """All kernels 15 % slower than the H100's, thin and thick ones; what they do not tell is the H100's."""
    base = load_gpu("h100-sxm5-80gb")
    board = replace(base, name="h100-custom", kernels=base.name)
    shapes = [(m, n, k) for m in (16, 256, 4096) for n in (2048, 8192) for k in (1024, 4096)]
    m, n, k = np.array(shapes, float).T
    rows = made_rows(board, shapes, gemm_seconds(board, m, n, k, precision=precision) / 0.85, precision)
    fitted, start = fit_gpu(rows, board), kernel_constants(base)
    told = law_seconds(fitted.gemm[precision], board, rows)
    assert np.median(np.abs(told / rows.seconds - 1)) < 0.15 / 2
    assert list(fitted.evidence) == [f"gemm.{precision}"]
    assert fitted.gemm[precision].ceiling == pytest.approx(0.88 * start.gemm[precision].ceiling, rel=0.06)
    assert fitted.memory == start.memory
    for name in ("share_64x64", "share_32x64"):
        kept = getattr(start.gemm[precision], name)
        assert getattr(fitted.gemm[precision], name) == pytest.approx(kept, rel=0.03), name


def test_the_faster_of_two_readers_tells_the_memory():
    """Being slower than a row costs three times being faster: every other row is read by a kernel 30 % slower."""
    shapes = [(m, n, k) for m in (1, 2, 4) for n in (8192, 16384, 32768) for k in (4096, 8192, 16384)] * 2
    m, n, k = np.array(shapes, float).T
    moved = 2 * (k * (m + n) + m * n)
    fast = 2e-6 + (moved + 1e6) / (0.85 * A100.memory_bandwidth)
    board = replace(A100, name="a100-custom", kernels="a100-sxm4-80gb")
    seconds = fast * np.where(np.arange(len(m)) < len(m) / 2, 1.0, 1.3)
    memory = fit_gpu(made_rows(board, shapes, seconds), board).memory
    read = memory.latency + (moved + memory.startup) / (memory.share * A100.memory_bandwidth)
    assert read / fast == pytest.approx(np.ones(len(m)), abs=0.05)


def test_a_fit_to_the_table_gives_the_catalog(rows):
    gpu = load_gpu("h200-sxm5-141gb")
    fitted, shipped = fit_gpu(rows, gpu), load_constants(gpu.name)
    for name in ("ceiling", "share_256x128", "bandwidth_share"):
        assert getattr(fitted.gemm["bf16"], name) == pytest.approx(
            getattr(shipped.gemm["bf16"], name), rel=0.02
        )
    assert fitted.evidence["gemm.bf16"].median_error == pytest.approx(
        shipped.evidence["gemm.bf16"].median_error, abs=0.003
    )


def test_folds_are_the_seeds_alone(rows):
    gpu = load_gpu("h200-sxm5-141gb")
    first, again = cross_validate(rows, gpu, folds=3, seed=1), cross_validate(rows, gpu, folds=3, seed=1)
    assert np.array_equal(first.predicted, again.predicted)
    assert len(first.predicted) == 616


def test_nothing_measured(rows):
    with pytest.raises(ValueError, match="no product was measured on a30"):
        fit_gpu(rows, load_gpu("a30"))
    with pytest.raises(ValueError, match="cannot be cut in 5 folds"):
        cross_validate(rows, load_gpu("a30"))


def test_rows_of_other_roles_are_left_out(rows):
    assert len(rows) > 15_000
    row = {"gpu": "X", "op": "gemm", "dtype": "bf16", "m": "8", "n": "8", "k": "8", "tflops": "1"}
    assert len(kernel_rows([{**row, "role": "test"}])) == 0
    one = kernel_rows([{**row, "role": "calibrate"}])
    assert one.seconds[0] == pytest.approx(2 * 8**3 / 1e12)
    assert one.gpu[0] == "x"


def test_attention_rates_count_half_the_pairs_and_both_passes():
    row = {"gpu": "X", "op": "attention FlashAttention-2", "dtype": "fp16/bf16", "batch": "2", "heads": "4",
           "kv_heads": "4", "seq_len": "1024", "head_dim": "64", "causal": "yes", "direction": "fwd+bwd",
           "tflops": "100"}  # fmt: skip
    one = kernel_rows([row])
    assert one.op[0] == "flash2"
    assert one.seconds[0] == pytest.approx(4 * 2 * 4 * 1024**2 * 64 * 0.5 * 3.5 / 100e12)


def test_unreadable_rows():
    good = {"gpu": "X", "op": "gemm", "dtype": "bf16", "m": "8", "n": "8", "k": "8", "tflops": "1"}
    with pytest.raises(ValueError, match="line 3: m='eight' is not a number; line 4: k='x' is not a number"):
        kernel_rows([good, {**good, "m": "eight"}, {**good, "k": "x"}])
    with pytest.raises(ValueError, match="columns gpu, dtype are missing"):
        kernel_rows([{"op": "gemm"}])
    assert len(kernel_rows([{**good, "tflops": "0"}])) == 0


@pytest.mark.parametrize(
    "module",
    [f"podsim.kernels.{name}" for name in ("fit_kernels", "fit_products", "fit_attention", "fit_host")],
)
def test_fits_start_within_their_bounds(module):
    """And a step of the search for a product's constants is at most half of its range."""
    held = vars(importlib.import_module(module))
    fits = [each.parameters for each in held.values() if isinstance(each, Fit)]
    for name, each in [pair for fit in (*fits, held.get("_PARAMETERS", {})) for pair in fit.items()]:
        assert each.low < each.high, name
        assert each.low <= each.start <= each.high, name
    for name, (scale, low, high) in [
        pair for key in ("_BOUNDS", "_NARROW") for pair in held.get(key, {}).items()
    ]:
        assert 0 <= low <= getattr(held["_START"], name) <= high, name
        assert 0 < scale <= (high - low) / 2, name
