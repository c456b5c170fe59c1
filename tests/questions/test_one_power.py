"""One power of a machine, whoever is asked; a part of a machine draws its share of it."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.fleet.power import LOADS, cluster_power, count_switches, load_power, make_node
from podsim.fleet.power_catalog import prices
from podsim.fleet.site import KWH
from podsim.hardware.catalog import names
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.studies.equal_share import equal_gpus

MACHINES = (*names("cluster"), *names("system"), *(f"{name}:4" for name in names("system")))


def machine(name: str) -> Cluster | None:
    try:
        return load_cluster(name)
    except PodsimError:
        return None  # no network joins several of it


def parts(whole: Cluster) -> list[Cluster]:
    """Parts of a machine: powers of two of its GPUs, and a third, where they are some."""
    made = []
    for gpus in {whole.gpus // 3, *(2**power for power in range(whole.gpus.bit_length()))}:
        try:
            made.append(whole.subset(gpus))
        except PodsimError:
            continue
    return made


def watts(cluster: Cluster) -> list[float]:
    loads = [load_power(cluster, load, pue=1.25) for load in LOADS]
    totals = [drawn.site for drawn in loads] + [drawn.switch_power for drawn in loads]
    limit = make_node(cluster).maximum * cluster.nodes
    return [
        total / cluster.gpus
        for total in (*totals, cluster_power(cluster, 0.5), limit, cluster.nodes * cluster.system.power)
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_a_part_draws_its_share_of_the_machine(name: str) -> None:
    whole = machine(name)
    if whole is None:
        return
    found = parts(whole)
    assert found
    for part in found:
        assert watts(part) == pytest.approx(watts(whole), rel=1e-9), part.name


def test_a_slice_by_its_name_is_a_part_of_its_pod() -> None:
    pod = load_cluster("tpu-v5p")
    for name in ("tpu-v5p:64", "v5p-128", "tpu-v5p:4x4x4"):
        assert watts(load_cluster(name)) == pytest.approx(watts(pod), rel=1e-9)
    # by hand: 64 of 8,960 chips of a pod of 4,704 kW
    assert make_node(load_cluster("tpu-v5p:64")).maximum == pytest.approx(4.704e6 * 64 / 8960)


def test_nodes_of_a_cluster_of_the_catalog_share_its_switches() -> None:
    by_name, by_gpus = load_cluster("selene:64"), load_cluster("selene", gpus=512)
    assert count_switches(by_name) == count_switches(by_gpus) == pytest.approx(850 * 64 / 560)
    assert watts(by_name) == pytest.approx(watts(load_cluster("selene")), rel=1e-9)
    assert count_switches(load_cluster("superpod-a100:1su")) == 12  # a machine of its own


def test_the_power_of_a_slice_is_what_a_user_says() -> None:
    given = load_cluster("tpu-v5p", {"torus": "4x4x4", "power": "30 kW"})
    assert make_node(given).maximum == pytest.approx(30e3)
    half = load_cluster("dgx-a100-80gb", {"gpus_per_node": 4})
    assert make_node(half).maximum == pytest.approx(3250)


@pytest.mark.parametrize("on", ["dgx-a100-80gb", "dgx-h100", "tpu-v5p", "tpu-v4", "gb200-nvl72", "cs-3"])
def test_machines_of_one_megawatt_hold_no_more(on: str) -> None:
    gpus = equal_gpus({"on": on}, "power", 1e6)
    part = load_cluster(on, gpus=gpus)
    assert 1 / 3 < make_node(part).maximum * part.nodes / 1e6 <= 1
    drawn = load_power(part, "training", pue=1.0)
    assert drawn.gpu_power + drawn.server_power <= 1e6


@pytest.mark.parametrize("on", ["dgx-a100-80gb", "dgx-h100"])
def test_energy_of_a_step_is_one_number(on: str) -> None:
    """A plan on half the GPUs, found by energy, draws what `predict` says of it."""
    plan = podsim.plan("gpt2", on=f"{on}:2", batch=64, objective="energy", top=1).ranked[0].prediction
    told = podsim.predict("gpt2", on=f"{on}:2", gpus=plan.gpus, batch=64, pue=1.25, **_fields(plan.plan))
    assert plan.expense is not None
    assert told.expense is not None
    assert told.expense.energy / told.expense.duration == pytest.approx(
        plan.expense.energy / plan.expense.duration, rel=1e-6
    )


def _fields(plan: object) -> dict[str, object]:
    assert isinstance(plan, dict)
    names_ = (
        "tp",
        "pp",
        "cp",
        "micro_batch",
        "zero",
        "recompute",
        "overlap_grad",
        "overlap_param",
        "sequence_parallel",
    )
    return {name: plan[name] for name in names_ if name in plan}


def test_cost_and_power_count_the_same_watts() -> None:
    for on in ("dgx-h100:4", "selene", "tpu-v5p:64"):
        bill, report = podsim.cost(on, gpu_hours=1000.0), podsim.power(on)
        training = next(load for load in report.loads if load.load == "training")
        assert bill.energy / KWH == pytest.approx(training.site / report.gpus / 1e3 * 1000)


# power of a GPU with all its parts, in a model of owners' costs; the tolerance was settled before
@pytest.mark.parametrize(
    "on", ["dgx-h100:64", "dgx-h200:64", "dgx-b200:64", "dgx-b300:64", "gb200-nvl72:8", "gb300-nvl72:8"]
)
def test_power_of_a_gpu_with_all_its_parts_against_another_model(on: str) -> None:
    cluster = load_cluster(on)
    published = next(
        entry.power for entry in prices().values() if cluster.gpu.name in entry.gpus and entry.power
    )
    limit = make_node(cluster).maximum * cluster.nodes + load_power(cluster, "peak", pue=1.0).switch_power
    assert limit / cluster.gpus == pytest.approx(published, rel=0.2)


@pytest.mark.parametrize(
    "on", ["selene", "selene-2020-11", "superpod-2020-11", "hipergator-ai", "selene-2020-06"]
)
def test_linpack_published_and_predicted_stand_side_by_side(on: str) -> None:
    page, report = podsim.show(on), podsim.power(on)
    run = report.benchmark
    assert run is not None
    assert page.row("HPL, predicted").value == run.rate
    assert page.row("power in HPL, predicted").value == run.power
    assert page.row("HPL").value == run.published_rate
    assert run.published_rate is not None
    assert abs(run.rate / run.published_rate - 1) < 0.22
    assert any(text.startswith("published: ") for text in run.remarks)
    assert "+2% to +21% off 5 published ones" in page.row("HPL, predicted").how
    assert any(page.row("HPL, predicted").how in text for text in report.sources)


def test_watts_of_a_node_are_one_number() -> None:
    for on in names("system"):
        page, cluster = podsim.show(on), load_cluster(on)
        assert page.row("power, maximum").value == pytest.approx(make_node(cluster).maximum), on


def test_a_plan_draws_the_limit_of_its_gpus_while_they_compute() -> None:
    report = podsim.power("llama-3.1-8b", on="h100", gpus=16, tp=2, zero=1)
    assert report.plan is not None
    assert (report.gpus, report.plan["tp"], report.plan["zero"]) == (16, 2, 1)
    drawn = {load.load: load.gpu_power for load in report.loads}
    parts = podsim.plan("llama-3.1-8b", on="h100", gpus=16, tp=2, zero=1, top=1).ranked[0].prediction.parts
    share = (parts["compute"] + parts["memory"] + parts["optimizer"]) / sum(parts.values())
    idle = drawn["idle"] / 16
    assert drawn["plan"] == pytest.approx(16 * (idle + (700 - idle) * share))


def test_a_layout_needs_a_model_to_draw_power() -> None:
    with pytest.raises(PodsimError, match="tp: only for a job"):
        podsim.power("h100", tp=8)
    with pytest.raises(PodsimError, match="name it with --on"):
        podsim.power("llama-3.1-8b")
