"""Units of what rows hold, by hand."""

from __future__ import annotations

import pytest

from podsim.accuracy.table_columns import KINDS
from podsim.accuracy.tables import find_kind, load, make_row, measurement, quantities
from podsim.errors import TableError


def value(table: str, id: str, what: str) -> float:
    found = measurement(load(table)[id], what)
    assert found is not None
    return found.value


def test_language_models() -> None:
    assert value("llm", "KORT-0002", "seconds per step") == 1.1
    assert value("llm", "KORT-0002", "FLOP/s per GPU") == pytest.approx(129.48e12)
    assert value("llm", "RUN-0001", "tokens/s per GPU") == 3369.78
    assert measurement(load("llm")["KORT-0001"], "FLOP/s per GPU") is None


def test_a_rate_of_tokens_and_a_batch_are_a_time() -> None:
    kind = find_kind("llm")
    step = {"global_batch": "256", "seq_len": "4096", "n_gpus": "64"}
    cells = dict.fromkeys(kind.columns, "") | step

    def seconds(**given: str) -> float | None:
        row = make_row(kind, cells | given, id="a", role="test", source="me")
        return getattr(measurement(row, "seconds per step"), "value", None)

    assert seconds(tokens_per_s="524288") == 2.0
    assert seconds(tokens_per_s_per_gpu="8192") == 2.0
    assert seconds(tokens_per_s_per_gpu="8192", step_time_s="2.1") == 2.1
    assert seconds(tokens_per_s="524288", global_batch="") is None
    assert seconds() is None
    row = make_row(kind, cells | {"tokens_per_s": "524288"}, id="a", role="test", source="me")
    assert getattr(measurement(row, "tokens/s per GPU"), "value", None) == 8192.0


def test_memory_is_binary_where_the_source_says_so() -> None:
    assert value("llm", "KORT-0002", "bytes") == 55.125 * 2**30
    assert value("llm", "TT-0001", "bytes") == 82.4 * 2**30
    plain = make_row(find_kind("llm"), dict.fromkeys(find_kind("llm").columns, "") | {"memory_gb": "2"})
    plain = make_row(find_kind("llm"), dict(plain.fields), id="a", role="test", source="me")
    assert getattr(measurement(plain, "bytes"), "value", None) == 2e9


def test_other_kinds() -> None:
    assert value("vision", "dle00008", "samples/s") == 2590.0  # 2.59 mol/ms
    assert value("vision", "dle00000", "seconds to train") == pytest.approx(3720)
    assert value("vision", "dle00070", "seconds") == pytest.approx(0.7e-3)
    assert value("mlperf", "mlp00024", "seconds to train") == pytest.approx(71.2783 * 60)
    assert value("kernels", "AICG-00001", "seconds") == pytest.approx(16.700587e-3)
    assert value("kernels", "AICN-00064", "B/s") == 0.051e9
    assert value("collectives", "sb_a100-40_1n8g_all_reduce/4", "seconds") == pytest.approx(34.73e-6)


def test_time_of_a_collective_that_printed_only_its_bandwidth() -> None:
    assert value("collectives", "gh100_a100_2n16g_peak/8589934592", "seconds") == pytest.approx(
        8589934592 / 48.5333e9
    )


def test_says_on_what_machine() -> None:
    found = measurement(load("korthikanti")["KORT-0003"], "seconds per step")
    assert found is not None
    assert found.machine.startswith("64 A100-SXM4 DGX A100")
    assert found.source.startswith("Korthikanti")


def test_a_quantity_that_the_kind_never_holds() -> None:
    row = load("llama").rows[0]
    with pytest.raises(
        TableError, match=r"unknown quantity of a table of kind 'llm' 'samples/s'.*seconds per step"
    ):
        measurement(row, "samples/s")
    assert all(kind.what in quantities(kind.name) for kind in KINDS)


def test_a_count_is_a_whole_number() -> None:
    kind = find_kind("llm")
    cells = dict.fromkeys(kind.columns, "") | {"n_gpus": "8.0", "tp": "2.5"}
    row = make_row(kind, cells, id="a", role="test", source="me")
    assert (row.integer("n_gpus"), row.integer("pp")) == (8, None)
    with pytest.raises(TableError, match=r"tp='2\.5' is not a whole number"):
        row.integer("tp")
