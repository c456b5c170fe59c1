"""Tables of engines' kernels in the form in which they are collected."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim.accuracy.price_engines import LAWS, engine_gpu, price_engines
from podsim.accuracy.pricing import compare_rows
from podsim.accuracy.reading import read_raw_kernels, read_rows
from podsim.accuracy.tables import load
from podsim.errors import TableError

HEADER = (
    "role,framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,"
    "window_size,beam_width,attn_dtype,kv_cache_dtype,step,latency\n"
)
ROW = (
    "test,VLLM,0.30.0,{},context_attention,vllm_flash_attn_fa3,{},4096,32,8,128,0,1,bfloat16,bfloat16,0,2.0\n"
)


def test_a_raw_table_of_a_gpu_without_tables_is_compared_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "h200_sxm_context_attention_vllm.csv"
    path.write_text(
        HEADER + ROW.format("NVIDIA H200", 8) + ROW.format("NVIDIA H900", 8) + ROW.format("NVIDIA H200", "")
    )
    kind, rows = read_rows(path)
    compared = compare_rows(rows)
    assert kind == "engines"
    assert [row.id for row in compared.rows] == ["line-2"]
    assert 0.5e-3 < compared.rows[0].predicted < 4e-3
    reasons = dict(compared.not_expressed)
    assert "H900" in reasons["line-3"]
    assert "sizes" in reasons["line-4"]


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"), ("NVIDIA H200", "h200-sxm5-141gb"), ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"), ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("NVIDIA GB300", "gb300"),
    ],
)  # fmt: skip
def test_devices_as_drivers_name_them(device: str, name: str) -> None:
    assert engine_gpu(device).name == name


def test_the_sample_has_every_law_on_every_gpu() -> None:
    rows = load("engines")
    assert {row.text("op_name") for row in rows} >= set(LAWS)
    assert len({row.text("device") for row in rows}) == 5


def test_raw_tables_need_their_folder(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="--raw"):
        list(read_raw_kernels(tmp_path))


def test_every_law_is_near_what_was_measured() -> None:
    rows = load("engines")
    one = {row.text("op_name"): row for row in rows if row.text("version") and not row.text("reason")}
    priced = price_engines(rows.where(lambda row: one.get(row.text("op_name")) is row))
    assert set(priced.predictions) >= {one[name].id for name in ("gemm", "moe", "context_attention")}
    for id, seconds in priced.predictions.items():
        assert 0.3 < seconds / (1e-3 * (rows[id].number("latency") or 0.0)) < 3, id


def test_products_are_told_apart_by_their_length(tmp_path: Path) -> None:
    path = tmp_path / "h100_sxm_gemm_trtllm.csv"
    line = "test,TRTLLM,1.0.0,NVIDIA H100 80GB HBM3,gemm,torch_flow,4096,4096,{},bfloat16,{}\n"
    path.write_text(
        "role,framework,version,device,op_name,kernel_source,m,n,k,gemm_dtype,latency\n"
        + line.format(64, "0.019")
        + line.format(4096, "0.021")
    )
    _, rows = read_rows(path)
    priced = price_engines(rows)
    assert [text.rpartition(", ")[2] for text in priced.groups.values()] == ["up to 20 us", "over 20 us"]
    short, long = priced.predictions.values()
    assert short < 20e-6 < long
