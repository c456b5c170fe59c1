"""One price of a GPU-hour, whoever is asked: every command that states money takes the same default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import podsim
from podsim.answers.expense import HOUR
from podsim.errors import PlanError
from podsim.fleet.power_catalog import list_prices, prices
from podsim.fleet.price_offers import ESTIMATED, is_rent, list_offers, price_offer
from podsim.hardware.catalog import load_gpu, names
from podsim.hardware.cluster import load_cluster
from podsim.studies.equal_share import equal_gpus

SMALL = {"batch": 64, "limit": {"micro_batch": "1", "recompute": "none", "tp": "1", "pp": "1", "zero": "1"}}
SERVED = {"rate": "5/s", "requests": 200, "input_tokens": "256", "output_tokens": "64"}


def of_cost(on: str) -> tuple[float, float]:
    offer = podsim.cost(on, gpu_hours=1).rows[0].offer
    return offer.low, offer.high


def of_predict(on: str) -> tuple[float, float]:
    expense = podsim.predict("gpt2", on=on, batch=64, tokens="1G", pue=1.2).expense
    assert expense is not None
    hours = expense.duration * expense.gpus
    return expense.low / hours, expense.high / hours


def of_plan(on: str) -> tuple[float, float]:
    prediction = podsim.plan("gpt2", on=on, tokens="1G", top=1, **SMALL).ranked[0].prediction
    expense = prediction.expense
    assert expense is not None
    assert expense.offer is not None
    return expense.offer.low, expense.offer.high


def of_cheapest_plan(on: str) -> tuple[float, float]:
    expense = podsim.plan("gpt2", on=on, objective="cost", top=1, **SMALL).ranked[0].prediction.expense
    assert expense is not None
    hours = expense.duration * expense.gpus
    return expense.low / hours, expense.high / hours


def of_served_load(on: str) -> tuple[float, float]:
    served = podsim.serve("gpt2", on=on, **SERVED)
    per_second = served.output_rate / 1e6 / served.replicas_on  # of one GPU each
    return served.price_low * per_second, served.price_high * per_second


def of_study(on: str) -> tuple[float, float]:
    row = podsim.study(
        {"design": [{"on": on, "model": "gpt2", "batch": 64, "tokens": "1G", "question": "predict"}]}
    ).rows[0]
    assert row.training is not None
    assert row.cost is not None
    assert row.cost_high is not None
    return row.cost / row.training / row.gpus, row.cost_high / row.training / row.gpus


def of_equal_machines(on: str) -> tuple[float, float]:
    """The least amount of USD an hour that buys a node, within a millionth."""
    node = load_cluster(on)
    low, high = 0.0, 1e6
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        try:
            equal_gpus({"on": on}, "price", middle)
            high = middle
        except podsim.PodsimError:
            low = middle
    return high / node.gpus / HOUR, of_cost(on)[1]


ASKED: tuple[Callable[[str], tuple[float, float]], ...] = (
    of_predict, of_plan, of_cheapest_plan, of_served_load, of_study, of_equal_machines,
)  # fmt: skip


@pytest.mark.parametrize("on", ["dgx-h100", "hgx-h20"])
@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.__name__)
def test_every_command_takes_the_same_price(asked: Callable[[str], tuple[float, float]], on: str) -> None:
    assert asked(on) == pytest.approx(of_cost(on), rel=1e-5)


def test_the_best_way_to_serve_and_its_command_state_the_same_price() -> None:
    best = podsim.serve("gpt2", on="dgx-h100", ttft="1s", tpot="100ms", **SERVED)
    assert (
        best.price
        == price_offer("", load_cluster("dgx-h100")).words
        == podsim.serve("gpt2", on="dgx-h100", **SERVED).price
    )
    source = list_offers(load_cluster("dgx-h100"))[0].origin
    assert "2026-08: SemiAnalysis" in source
    assert source in best.notes
    assert source in podsim.serve("gpt2", on="dgx-h100", **SERVED).assumptions


def test_a_benchmark_to_its_target_takes_the_same_price() -> None:
    plan = podsim.plan("resnet", on="dgx-a100-40gb", to_target=True)
    assert plan.best.usd == pytest.approx(plan.best.run.gpu_seconds * of_cost("dgx-a100-40gb")[0])
    assert plan.price == price_offer("", load_cluster("dgx-a100-40gb")).words


def test_every_gpu_of_the_catalog_has_a_price() -> None:
    cluster = load_cluster("dgx-a100-80gb")
    for name in names("gpu"):
        part = replace(cluster, system=replace(cluster.system, gpu=load_gpu(name)))
        offer = price_offer("", part)
        assert offer is not None, name
        assert 0 < offer.least <= offer.low <= offer.high <= offer.most, name
        assert offer.date, name
        assert offer.source, name
        rows = [
            entry
            for entry in prices().values()
            if name in entry.gpus and is_rent(entry) and "2026" in entry.date
        ]
        assert (offer.name == ESTIMATED) is (not rows), name
    unknown = replace(cluster, system=replace(cluster.system, gpu=replace(cluster.gpu, name="mine")))
    assert price_offer("", unknown) is None
    with pytest.raises(PlanError, match="no price of mine"):
        price_offer("", unknown, objective="cost")


def test_an_estimate_is_the_ratio_of_list_prices_and_says_so() -> None:
    offer = price_offer("", load_cluster("hgx-h20"))
    assert offer is not None
    # 12,000 USD beside the A100 of 15,000 (H100: 30,000), which a specialist cloud rents for 1.10 to 1.50
    assert (offer.low * HOUR, offer.high * HOUR) == pytest.approx((0.8 * 1.10, 0.8 * 1.50))
    assert offer.words == "0.88 to 1.20 USD per GPU-hour (estimated, 2026-05)"
    assert price_offer(ESTIMATED, load_cluster("hgx-h20")) == offer


def test_the_default_is_the_newest_rent_with_its_date_and_range() -> None:
    offer = price_offer("", load_cluster("dgx-h100"))
    assert offer is not None
    assert offer.words == "1.78 USD per GPU-hour (contract-h100, 2026-08; rents 1.49 to 5.00)"
    of_three = price_offer("", load_cluster("dgx-a100-80gb"))
    assert of_three is not None
    assert of_three.name == "specialist-a100"  # between 0.80 and 1.50 USD of the same month


def test_an_instance_costs_its_share_of_the_gpu() -> None:
    whole, part = (list_offers(load_cluster(name))[0] for name in ("a100-80gb", "a100-80gb/3g.40gb"))
    assert part.low == pytest.approx(whole.low / 2)
    assert part.name == whole.name


def test_list_prices_name_gpus_of_the_catalog_once() -> None:
    listed = [name for table in list_prices() for name in table.usd]
    assert sorted(listed) == sorted(names("gpu"))
