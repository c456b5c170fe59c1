"""The fitted constants of the catalog come out of `podsim calibrate --software NAME` again."""

from __future__ import annotations

import pytest

from podsim.accuracy.calibrate_software import CONSTANTS, SYSTEM_CONSTANTS
from podsim.questions.operate.calibrate import calibrate
from podsim.training.software import load_software, software_entries, software_names

TRANSFORMERS = (
    "megatron-2021",
    "megatron-2020.volta",
    "megatron-2022",
    "nemo-2022",
    "nemo-2025.hopper",
    "nemo-2026.blackwell",
    "internevo-2024",
)
NETWORKS = tuple(
    f"{name}.{part}".rstrip(".")
    for name, entry in software_entries().items()
    if name.startswith(("dle-", "mlperf-"))
    for part, own in [("", entry), *((key, value) for key, value in entry.items() if isinstance(value, dict))]
    if "fitted" in own
)
"""entries and tables whose constants are fitted to rows of captured networks"""
LONG = {"mlperf-pytorch", "internevo-2024", "nemo-2022"}
"""those whose fit takes three seconds or more"""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in LONG else [])
        for name in (*TRANSFORMERS, *NETWORKS)
    ],
)
def test_the_catalog_is_what_the_fit_gives(name: str) -> None:
    pytest.importorskip("scipy")
    found = calibrate(software=name, check=True)
    assert found.compared > 0
    assert found.drifts == ()


def test_every_software_names_its_evidence() -> None:
    for name in software_names():
        assert load_software(name).evidence


@pytest.mark.parametrize("name", [*CONSTANTS, *SYSTEM_CONSTANTS])
def test_a_constant_starts_within_its_bounds_and_may_move(name: str) -> None:
    constant = {**CONSTANTS, **SYSTEM_CONSTANTS}[name]
    assert constant.low < constant.start < constant.high
    assert constant.low > 0 or not constant.is_log
    width = constant.high / constant.low if constant.is_log else constant.high - constant.low
    assert 0 < constant.scale < width
