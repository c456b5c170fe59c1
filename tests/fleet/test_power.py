"""Power and money: worked by hand, against published runs and lists, and with bad input."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import podsim
from podsim.answers.expense import HOUR
from podsim.cli import app
from podsim.errors import CatalogError, PlanError, PodsimError
from podsim.fleet.plan_lots import front, gpu_counts
from podsim.fleet.power import (
    capped_speed,
    cluster_power,
    count_switches,
    load_power,
    make_node,
    power_sources,
)
from podsim.fleet.power_catalog import figures, prices
from podsim.fleet.power_hpl import grid, hpl
from podsim.fleet.power_schema import parse_prices
from podsim.fleet.site import KWH
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import load_cluster

Run = Callable[..., Result]
DGX = "dgx-a100-80gb"
GPT = (
    "gpt3-175b",
    "--on",
    "selene",
    "--gpus",
    "512",
    "--tp",
    "8",
    "--pp",
    "8",
    "--zero",
    "1",
    "--batch",
    "1536",
)


@pytest.fixture
def run() -> Run:
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_a_dgx_a100_by_hand() -> None:
    one = load_cluster(DGX)
    idle, training, peak = (load_power(one, load, pue=1.0) for load in ("idle", "training", "peak"))
    assert idle.node == pytest.approx(8 * 60 + 0.288 * 3300)
    assert training.node == pytest.approx(8 * 394 + 0.545 * 3300)
    assert peak.node == pytest.approx(8 * 558 + 0.585 * 3300)
    assert max(idle.node, training.node, peak.node) < 6500  # what the data sheet allows
    assert load_power(one, "training", pue=1.25).site == pytest.approx(1.25 * training.total)


def test_an_instance_has_its_share_of_the_server_around_its_gpu() -> None:
    whole = load_power(load_cluster("dgx-a100-40gb"), "training", pue=1.0)
    seven, small = (load_cluster(f"a100-40gb/{name}") for name in ("7g.40gb", "1g.5gb"))
    one = load_power(small, "training", pue=1.0)
    assert one.gpu_power == pytest.approx(394 * 14 / 108)
    assert one.server_power == pytest.approx(0.545 * 3300 / 8 / 8)
    assert load_power(seven, "training", pue=1.0).server_power == pytest.approx(whole.server_power / 8)
    assert (
        0.8 * whole.total < 56 * one.total < whole.total
    )  # one memory slice and ten SMs of each GPU stay out
    assert load_power(small, "peak", pue=1.0).total < make_node(small).maximum
    hours = podsim.cost("a100-40gb/1g.5gb", gpu_hours=100, pue=1.0)
    assert hours.energy / KWH == pytest.approx(one.total / 1000 * 100)
    assert make_node(load_cluster(DGX)).maximum == 6500.0


# a fleet of 8 x A100 servers: what the GPUs drew, and what the servers drew; the mean server was in use 66 % of the time
def test_the_mean_server_of_a_fleet() -> None:
    one = load_cluster(DGX)
    used = 0.661
    rest = (
        load_power(one, "idle", pue=1).server_power * (1 - used)
        + load_power(one, "training", pue=1).server_power * used
    )
    assert 8 * 168.6 + rest == pytest.approx(2930.4, rel=0.03)


@pytest.mark.parametrize(
    ("cluster", "load", "watts", "error"),
    [
        (DGX, "training", 4851, 0.03),  # 90th percentile of that fleet
        (DGX, "peak", 6554, 0.03),  # its highest sample
        (DGX, "idle", 1421, 0.01),  # its 1st percentile
        ("dgx-h100", "training", 8400, 0.05),  # highest of an 8 x H100 server training (Latif et al. 2025)
        (DGX, "idle", 1540, 0.08),  # lowest of a DGX A100 80GB between MLPerf runs
    ],
)
def test_measured_servers(cluster: str, load: str, watts: float, error: float) -> None:
    assert load_power(load_cluster(cluster), load, pue=1).node == pytest.approx(watts, rel=error)


@pytest.mark.parametrize(
    ("cluster", "rate", "watts", "efficiency"),
    [
        ("selene-2020-11", 63.46e15, 2.646e6, 24.0e9),  # TOP500 and Green500, November 2020
        ("superpod-2020-11", 2.356e15, 89.9e3, 26.2e9),  # NVIDIA DGX SuperPOD, first of that Green500
        ("hipergator-ai, 300 W", 17.2e15, 583e3, 29.52e9),  # Green500, with tuned clocks
    ],
)
def test_linpack_from_the_parts(cluster: str, rate: float, watts: float | None, efficiency: float) -> None:
    name, _, cap = cluster.partition(", ")
    found = hpl(load_cluster(name), cap=float(cap.split()[0]) if cap else None)
    assert found is not None
    assert found.rate == pytest.approx(rate, rel=0.05)
    assert found.efficiency == pytest.approx(efficiency, rel=0.035)
    assert watts is None or found.power == pytest.approx(watts, rel=0.03)


def test_grids() -> None:
    assert [grid(n) for n in (1, 7, 8, 160, 4480)] == [(1, 1), (1, 7), (2, 4), (10, 16), (64, 70)]


# GPU hours x limit, as model cards count, against what they print
@pytest.mark.parametrize(
    ("gpu", "hours", "energy", "carbon", "tonnes"),
    [
        (DGX, 1_082_990, 433, 0.057, 25),  # BLOOM
        (DGX, 3_311_616, 1324.6, None, 539),  # Llama 2
        ("dgx-h100", 39_300_000, 27_510, 0.4145, 11_390),  # Llama 3.1
        ("dgx-h100", 6_400_000, 4_480, 0.4241, 1_900),  # Llama 3 70B
    ],
)
def test_published_energy(gpu: str, hours: float, energy: float, carbon: float | None, tonnes: float) -> None:
    bill = podsim.cost(gpu, gpu_hours=hours, carbon=carbon)
    assert bill.plain_energy / KWH / 1e3 == pytest.approx(energy, rel=1e-3)
    assert bill.plain_carbon / 1e3 == pytest.approx(tonnes, rel=0.02)
    assert bill.energy > bill.plain_energy


def test_a_site_draws_its_pue_times_the_power_of_the_machine_and_emits_for_all_of_it() -> None:
    bill = podsim.predict("gpt2", on=DGX, tokens="10G", pue=1.5, carbon=0.4).expense
    assert bill is not None
    assert bill.energy == pytest.approx(1.5 * bill.power * bill.duration)
    assert bill.carbon == pytest.approx(0.4 * bill.energy / KWH)


def test_owning_a_dgx_by_hand() -> None:
    bill = podsim.cost("dgx-a100-40gb", gpu_hours=1000, pue=1.0, electricity=0.0)
    owned = next(row for row in bill.rows if row.offer.name == "owned-dgx-a100")
    assert owned.offer.low * HOUR == pytest.approx(199_000 / 8 / (4 * 365 * 24))
    power = podsim.cost("dgx-a100-40gb", gpu_hours=1000, pue=1.25, electricity=0.10)
    more = next(row for row in power.rows if row.offer.name == "owned-dgx-a100").offer.low - owned.offer.low
    assert more * HOUR == pytest.approx(4.95 / 8 * 1.25 * 0.10, rel=1e-3)


def test_every_price_has_its_date_and_source_and_a_gpu_that_is() -> None:
    for name, entry in prices().items():
        assert entry.date, name
        assert entry.source, name
        assert [load_gpu(gpu).name for gpu in entry.gpus] == list(entry.gpus)
    for row in podsim.cost(DGX, gpu_hours=1).rows:
        assert row.offer.date
        assert row.offer.source


def test_prices_that_cannot_be() -> None:
    good = {
        "provider": "us",
        "offer": "x1",
        "gpus": ["a"],
        "kind": "list",
        "low": 1.0,
        "date": "2026",
        "source": "us, 2026",
    }
    assert parse_prices({"a": good}, "f")
    assert parse_prices({"a": good | {"high": good["low"]}}, "f")["a"].high == good["low"]
    wrong = {"low": -1.0}, {"source": ""}, {"high": 0.5}, {"purchase": 3.0}, {"colour": 1}, {"date": None}
    with pytest.raises(CatalogError) as caught:
        parse_prices({f"p{i}": good | change for i, change in enumerate(wrong)}, "prices.toml")
    assert all(f"[p{i}]" in str(caught.value) for i in range(len(wrong)))


@settings(max_examples=30, deadline=None)
@given(low=st.floats(0, 1), high=st.floats(0, 1), cap=st.floats(125, 400))
def test_more_work_and_more_room_draw_more(low: float, high: float, cap: float) -> None:
    one = load_cluster(DGX)
    low, high = sorted((low, high))
    assert cluster_power(one, low) <= cluster_power(one, high)
    assert cluster_power(one, high, cap=cap) <= cluster_power(one, high)
    assert 0 < capped_speed(one, cap) <= 1
    energy = [cluster_power(one, 1.0, cap=c) / capped_speed(one, c) for c in (cap, 400)]
    assert energy[0] <= energy[1] * 1.001  # within these caps arithmetic gets cheaper, never dearer


def test_capped_gpus_against_tuned_clocks() -> None:
    """MLPerf Inference v1.1: the GPUs' power that is left of a DGX A100 at tuned clocks, and its speed."""
    one = load_cluster(DGX)
    rest = load_power(one, "training", pue=1).server_power
    for wall, speed in ((3549.3, 24.7 / 28.3), (2946.2, 245 / 313.5)):
        assert capped_speed(one, (wall - rest) / 8) == pytest.approx(speed, rel=0.01)


def test_parts_of_a_server_and_of_a_cluster() -> None:
    whole = load_cluster(DGX)
    assert make_node(whole.subset(2)).rest == pytest.approx(make_node(whole).rest / 4)
    pod = load_cluster("superpod-a100:1su")
    assert count_switches(pod) == 12
    half = pod.subset(80)
    assert cluster_power(half, 0.5) == pytest.approx(cluster_power(pod, 0.5) / 2)


def test_an_answer_has_the_days_and_the_money_of_a_run_with_failures(run: Run) -> None:
    plain = json.loads(run("predict", *GPT, "--json").stdout)
    assert plain["training"]["tokens"] == pytest.approx(20 * 174.6e9, rel=0.01)
    assert plain["expense"]["offer"]["name"] == "specialist-a100"
    priced = json.loads(run("predict", *GPT, "--json", "--price", "2.10", "--tokens", "300e9").stdout)
    expense, training = priced["expense"], priced["training"]
    assert (
        expense["duration"]
        == training["expected"]
        > training["seconds"]
        >= 300e9 / priced["tokens_per_second"]
    )
    assert expense["low"] == pytest.approx(2.10 * training["expected"] / HOUR * 512)
    assert expense["energy"] == pytest.approx(expense["power"] * expense["duration"] * 1.25)
    told = run("predict", *GPT, "--price", "hyperscaler-a100", "-v").stdout
    assert "hyperscaler-a100, 2026-05)" in " ".join(told.split())


def test_commands_in_every_format(run: Run) -> None:
    for words in (("power", "selene"), ("cost", DGX, "--gpu-hours", "100")):
        text, as_json, as_csv = run(*words), run(*words, "--json"), run(*words, "--csv")
        assert (text.exit_code, as_json.exit_code, as_csv.exit_code) == (0, 0, 0)
        assert json.loads(as_json.stdout)
        assert len(list(csv.DictReader(io.StringIO(as_csv.stdout)))) > 3
        assert "2026" in text.stdout or "2023" in text.stdout
    report = podsim.power("selene", cap="300 W")
    assert report.speed < 1
    assert report.loads[1].gpu_power < podsim.power("selene").loads[1].gpu_power


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("power", "nowhere"), ["nowhere"]),
        (("power", DGX, "--cap", "5kW"), ["cap 5000 W", "400 W"]),
        (("power", DGX, "--cap", "fast"), ["cap", "fast"]),
        (("power", DGX, "--pue", "0.5"), ["pue=0.5"]),
        (("cost", DGX), ["gpu-hours"]),
        (
            ("cost", DGX, "--gpu-hours", "-3", "--price", "-2", "--price", "spiral", "--load", "mad", "--pue", "9",
             "--carbon", "-1"),
            ["gpu_hours=-3", "price '-2'", "unknown price 'spiral'", "unknown load 'mad'", "pue=9", "carbon=-1"],
        ),
        (("cost", "dgx-h100", "--gpu-hours", "3", "--price", "aws-p4d"), ["a100-sxm4-40gb", "aws-p5"]),
        (("predict", *GPT, "--price", "0"), ["more than 0 USD"]),
        (("predict", *GPT, "--tokens", "1", "--price", "2"), ["one step"]),
        (("plan", "gpt2", "--on", DGX, "--price", "spiral"), ["unknown price 'spiral'"]),
    ],
)  # fmt: skip
def test_misuse(run: Run, words: tuple[str, ...], said: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    for text in said:
        assert text in result.stderr


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12))
def test_fronts(points: list[tuple[int, int]]) -> None:
    first, second = (np.array(axis, dtype=float) for axis in zip(*points, strict=True))
    kept = {points[i] for i in front(first, second).tolist()}
    best = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    assert kept == best


def test_numbers_of_gpus() -> None:
    assert gpu_counts(load_cluster("selene"), 4480) == [4480, 2240, 1120, 560, 280]
    assert gpu_counts(load_cluster(DGX), 8) == [8, 4, 2, 1]


def test_plans_by_cost_and_energy(run: Run) -> None:
    limit = {"micro_batch": "1", "recompute": "none,full", "flash": "true", "pp": "1,2"}
    job = {"on": "dgx-a100-80gb:4", "batch": 64, "limit": limit, "headroom": 0}
    found = podsim.plan("llama-3.1-8b", objective="energy", price="2.00", pue=1.1, **job)
    assert found.trade is not None
    assert found.trade.tried[:2] == (32, 16)
    for points in (found.trade.time_cost, found.trade.time_energy):
        assert points
        assert all(a.step_time < b.step_time for a, b in pairwise(points))
    energies = [ranked.prediction.expense.energy for ranked in found.ranked if ranked.prediction.expense]
    assert energies == sorted(energies)
    assert energies[0] == pytest.approx(found.trade.time_energy[-1].energy, rel=1e-6)
    fastest = podsim.plan("llama-3.1-8b", **job).ranked[0].prediction
    assert found.trade.time_energy[0].step_time == pytest.approx(fastest.step_time)
    cheap = podsim.plan("llama-3.1-8b", objective="cost", price="2", **job)
    assert cheap.ranked[0].prediction.expense is not None
    assert cheap.trade is not None
    assert cheap.ranked[0].prediction.expense.low == pytest.approx(cheap.trade.time_cost[-1].cost)
    with pytest.raises(PlanError):
        podsim.plan(
            "gpt3-175b", on="dgx-a100-80gb:1", objective="cost", price="2", limit={"tp": "8"}, batch=8
        )


def test_a_search_by_cost_is_saved_and_replayed(run: Run, tmp_path: object) -> None:
    words = (
        "plan", "llama-3.1-8b", "--on", "dgx-a100-80gb:2", "--batch", "32", "--objective", "cost", "--price", "2",
        "--pue", "1.2", "--limit", "tp=1", "--limit", "micro_batch=1", "--limit", "pp=1", "--save", tmp_path,
    )  # fmt: skip
    first = run(*words)
    again = run("replay", f"{tmp_path}/experiment.toml")
    assert first.exit_code == again.exit_code == 0, again.stderr
    assert first.stdout.partition("Pareto")[2] == again.stdout.partition("Pareto")[2]


def test_figures_say_where_they_come_from() -> None:
    for table in vars(figures()).values():
        assert len(table.source) > 10
        assert table.date
    with pytest.raises(PodsimError):
        make_node(load_cluster(DGX), 10.0)


def test_only_what_a_cluster_has_is_a_source() -> None:
    one, many = load_cluster("dgx-a100-80gb:1"), load_cluster("dgx-a100-80gb:16")
    assert (count_switches(one) > 0, count_switches(many) > 0) == (False, True)
    switch = f"{figures().switch.source} ({figures().switch.date})"
    assert (switch in power_sources(one), switch in power_sources(many)) == (False, True)
