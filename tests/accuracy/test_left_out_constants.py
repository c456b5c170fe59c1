"""Constants of software: their physical ranges, and fits without a group of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from podsim.accuracy.left_out_constants import beyond_range, leave_out
from podsim.accuracy.tables import training_rows
from podsim.errors import PodsimError
from podsim.questions.operate.calibrate import calibrate
from podsim.training.software import software_entries

pytest.importorskip("scipy")

BEYOND = {
    ("torchtitan-2024-rowwise", "cast_bytes"), ("torchtitan-2024-rowwise.h100-sxm5-96gb-hbm2e", "cast_bytes"),
    ("maxtext", "attention_speed"),
}  # fmt: skip
"""Where the law lacks a term that a constant makes up for; the list may only shrink."""


def numbers(name: str, entry: Mapping[str, object]) -> Iterator[tuple[str, str, float]]:
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from numbers(f"{name}.{key}", value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, key, float(value)


def test_constants_of_language_models_are_physical_but_for_those_named() -> None:
    entries = {
        name: own for name, own in software_entries().items() if not name.startswith(("dle-", "mlperf-"))
    }
    wrong = {
        (part, key)
        for name, own in entries.items()
        for part, key, value in numbers(name, own)
        if beyond_range({key: value})
    }
    assert wrong == BEYOND


def test_a_model_left_out_is_predicted_worse_and_changes_what_it_was_fitted_to() -> None:
    """Narayanan's Table 1 (SC'21): four rows of four models fit one speed of products."""
    rows = [row for row in training_rows() if row["id"].startswith("SC21-")]
    groups = leave_out(rows, "megatron-2021", ["gemm_speed"], "model")
    assert len(groups) == sum(group.rows for group in groups) == 4
    errors = [(group.seen, group.unseen) for group in groups if group.unseen is not None]
    assert len(errors) == 4
    assert sum(unseen for _, unseen in errors) >= sum(seen for seen, _ in errors)
    assert len({group.values["gemm_speed"] for group in groups}) > 1


def test_the_only_source_of_an_entry_leaves_nothing_to_fit() -> None:
    rows = [row for row in training_rows() if row["id"].startswith("SC21-")]
    (group,) = leave_out(rows, "megatron-2021", ["gemm_speed"], "source")
    assert (group.unseen, dict(group.values)) == (None, {})


def test_leaving_out_needs_a_software() -> None:
    with pytest.raises(PodsimError, match="--software"):
        calibrate(leave_out="source")
    with pytest.raises(PodsimError, match="model"):
        calibrate(leave_out="modle", software="megatron-2021")
