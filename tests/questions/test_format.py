"""`podsim format`: codes around numbers, GPUs, published accuracy, and what precisions gain and cost."""

from __future__ import annotations

import math

import pytest

import podsim
from podsim.answers.number_formats import FormatCode, FormatSheet, FormatTable, FormatTrade
from podsim.errors import PodsimError


def codes(name: str, numbers: str) -> tuple[FormatCode, ...]:
    sheet = podsim.format(name, numbers, on="h100")
    assert isinstance(sheet, FormatSheet)
    return sheet.codes


def test_all_formats() -> None:
    table = podsim.format()
    assert isinstance(table, FormatTable)
    rows = {row.name: row for row in table.rows}
    assert (rows["tf32"].exponent, rows["tf32"].mantissa, rows["tf32"].memory_bits) == (8, 10, 32)
    assert rows["nvfp4"].bits == 4.5
    assert rows["fp64"].largest == 1.7976931348623157e308


def test_neighbours_and_their_chances() -> None:
    below, above = codes("e4m3", "0.3")
    assert (below.value, above.value) == (0.28125, 0.3125)
    assert (below.bits, above.bits) == ("0 0101 001", "0 0101 010")
    assert above.chance == pytest.approx(0.6)
    assert above.is_nearest
    low, high = codes("bf16", "-3.14159")
    assert low.value < -3.14159 < high.value
    assert [code.value for code in codes("fp16", "65520")] == [65504.0, math.inf]
    assert [code.chance for code in codes("int8", "3.25")] == [0.75, 0.25]
    assert [code.value for code in codes("mxfp4", "0.3,1,-5")] == [0.5, 1.0, -4.0]
    (only,) = codes("e4m3", "1e9")
    assert math.isnan(only.value)


def test_gpus_and_accuracy() -> None:
    sheet = podsim.format("tf32", on="dgx-a100-80gb")
    assert isinstance(sheet, FormatSheet)
    assert [(row.gpu, row.peak) for row in sheet.gpus] == [("a100-sxm4-80gb", 156e12)]
    (pairs,) = sheet.accuracy
    assert (pairs.baseline, pairs.count) == ("fp32", 60)
    assert pairs.size < 1e-3 < pairs.p90 < 1e-2


def test_what_formats_gain_and_cost() -> None:
    trade = podsim.format(model="bert-large", on="a100", gpus=8, batch=64)
    assert isinstance(trade, FormatTrade)
    rows = {row.precision: row for row in trade.rows}
    assert list(rows) == ["fp32", "tf32", "bf16", "fp16"]
    assert 1.0 < rows["tf32"].gain < rows["bf16"].gain
    prediction = podsim.plan("bert-large", on="a100", gpus=8, batch=64, precision="tf32").ranked[0].prediction
    assert rows["tf32"].step_time == prediction.step_time
    assert rows["fp16"].accuracy is not None
    assert rows["fp16"].accuracy.phase == "training"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "fp9"}, "unknown number format"), ({"name": "bf16", "numbers": "x"}, "1 to 64 numbers"),
        ({"numbers": "1"}, "rounded to a format"), ({"model": "gpt2"}, "needs a GPU"),
        ({"name": "bf16", "model": "gpt2", "on": "h100"}, "leave 'bf16' out"),
    ],
)  # fmt: skip
def test_misuse(given: dict[str, str], words: str) -> None:
    with pytest.raises(PodsimError, match=words):
        podsim.format(**given)
