"""Sheets of models and of software, by hand, and the entries that software inherits."""

from __future__ import annotations

from typing import Any

import pytest

from podsim.errors import CatalogError
from podsim.training.model_sheets import all_software_sheet, model_sheet, software_sheet
from podsim.training.software import load_software, read_catalog, software_names
from podsim.workload.catalog import load_model


def test_the_work_of_a_token_by_hand() -> None:
    """24 layers of hidden 2,304 with 12 h^2 weights, causal attention over 2,048 tokens, and a head of 51,200 words."""
    sheet = model_sheet(load_model("gpt-1.7b"))
    products, attention, logits = 2 * 24 * 12 * 2304**2, 2 * 24 * 2048 * 2304 * 2, 2 * 2304 * 51200
    assert [row.value for row in sheet.sections[1].rows] == [
        products, attention, logits, 3 * (products + attention + logits)
    ]  # fmt: skip
    assert sheet.sections[1].rows[-1].text == "11.24 GFLOP"
    assert [sheet.row(name).value for name in ("layers", "hidden", "sequence")] == [24, 2304, 2048]
    rows = {row.label: row for section in sheet.sections for row in section.rows}
    assert rows["mlp.up"].value == 2304 * 9216 + 9216
    assert rows["mlp.up"].how == "2304 -> 9216, split column"
    assert rows["attention.core"].how == "24 heads of 96, split head"


def test_the_sheet_of_software_has_the_unit_of_each_constant() -> None:
    sheet = software_sheet("nemo-2024")
    told = {
        "bucket": ("B", "26.21 MB", ""), "host_update": ("s", "0 s", ""), "host_kernel": ("s", "20 us", ""),
        "gradient_bytes": ("B", "4 B", "per parameter"), "accumulation_bytes": ("B", "0 B", "per parameter"),
        "gemm_speed": ("", "0.9", ""), "flash": ("", "flash2", ""), "fused_softmax": ("", "yes", ""),
        "can_overlap": ("", "grad, param, tp", ""),
    }  # fmt: skip
    assert {name: (sheet.row(name).unit, sheet.row(name).text, sheet.row(name).how) for name in told} == told
    assert sheet.row("evidence").how == load_software("nemo-2024").evidence
    assert [row.label for row in all_software_sheet().sections[0].rows] == list(software_names())


def test_an_entry_inherits_and_its_tables_replace() -> None:
    raw: dict[str, Any] = {
        "one": {
            "title": "1",
            "source": "s",
            "gemm_speed": 0.9,
            "volta": {"gemm_speed": 0.8, "host_send": 1.0},
        },
        "two": {"inherits": "one", "source": "t", "memory_speed": 2.0, "volta-fp32": {"host_send": 3.0}},
    }
    read = read_catalog(raw)
    assert {part: (entry.gemm_speed, entry.host_send) for part, entry in read["one"].items()} == {
        "": (0.9, 15e-6), "volta": (0.8, 1.0)
    }  # fmt: skip
    assert {part: (entry.gemm_speed, entry.host_send) for part, entry in read["two"].items()} == {
        "": (0.9, 15e-6), "volta": (0.8, 1.0), "volta-fp32": (0.8, 3.0)
    }  # fmt: skip
    assert {entry.memory_speed for entry in read["two"].values()} == {2.0}
    assert (read["two"][""].title, read["two"][""].source) == ("1", "t")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"title": "1", "source": "s", "speed": 1.0}, r"unknown keys \['speed'\], missing keys \[\]"),
        ({"title": "1", "source": "s", "volta": {"speed": 1.0}}, r"unknown keys \['volta.speed'\]"),
        ({"title": "1"}, r"unknown keys \[\], missing keys \['source'\]"),
        ({"title": "1", "source": "s", "inherits": "another"}, "software 'mine'"),
    ],
)
def test_an_entry_with_wrong_keys_is_refused(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(CatalogError, match=problem):
        read_catalog({"mine": entry})
