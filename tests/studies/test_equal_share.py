"""Designs of equal power, peak or price."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.report.study_tables import study_report
from podsim.studies.study_file import read_study

DESIGNS = [
    {"name": "A", "on": "dgx-a100-80gb"},
    {"name": "H", "on": "dgx-h100"},
    {"name": "W", "on": "cs-3", "price": "9"},
]


def sized(equal: str, amount: object) -> dict[str, int]:
    study = {"equal": equal, "amount": amount, "common": {"model": "gpt2"}, "design": DESIGNS}
    return {point.name: int(point.settings["gpus"]) for point in read_study(study).points}


@pytest.mark.parametrize(
    ("equal", "amount", "of_node"),
    [
        ("power", "200 kW", lambda node: node.system.power),
        ("peak", "1 EFLOP/s", lambda node: node.gpu.peaks["bf16"] * node.gpus),
    ],
)
def test_each_design_takes_most_of_the_amount(equal, amount, of_node) -> None:
    for design in DESIGNS:
        node = podsim.load_cluster(design["on"])
        nodes = sized(equal, amount)[design["name"]] // node.gpus
        taken = nodes * of_node(node) / {"power": 200e3, "peak": 1e18}[equal]
        assert taken * (1 + 1 / nodes) > 2 / 3
        assert taken <= 1
        assert nodes & (nodes - 1) == 0 or nodes % 3 == 0


def test_a_price_is_of_the_design_or_the_default() -> None:
    assert sized("price", 100)["W"] == 8  # 9 USD each
    estimated = {"equal": "price", "amount": 100, "design": [{"on": "cs-3", "model": "gpt2"}]}
    with pytest.raises(PodsimError, match=r"needs 158\.65 USD/h"):
        read_study(estimated)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"equal": "weight", "amount": 1}, "may be power, peak, price"),
        ({"equal": "power"}, "needs an amount"),
        ({"amount": "1 MW"}, "may be power"),
        ({"equal": "power", "amount": "-1 MW"}, "more than nothing"),
        ({"equal": "power", "amount": "1 kW"}, "one node needs"),
        ({"equal": "power", "amount": "1 MW", "common": {"gpus": 8}}, "no gpus of its own"),
    ],
)
def test_what_is_refused(keys, says) -> None:
    with pytest.raises(PodsimError, match=says):
        read_study({"design": [{"on": "dgx-h100", "model": "gpt2"}], **keys})


def test_a_design_that_nothing_measured_resembles_says_so() -> None:
    study = {"equal": "power", "amount": "100 kW", "common": {"model": "gpt2"}, "design": DESIGNS[1:]}
    result = podsim.study(study, executor="serial", store="none")
    assert [row.measured == 0 for row in result.rows] == [False, True]
    texts = [str(block) for block in study_report(result)]
    assert any("W: no measured run resembles it; assumptions leave" in text for text in texts)
