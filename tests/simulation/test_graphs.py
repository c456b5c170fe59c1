"""Steps of captured graphs, played: against the closed form of replicas, and against sums worked out here."""

from __future__ import annotations

import json

import numpy as np
import pytest

import podsim
from podsim.errors import PodsimError
from podsim.graphs.graph_cost import graph_costs, update_seconds
from podsim.graphs.graph_step import replicas_step
from podsim.graphs.networks import load_network
from podsim.graphs.op_graph import nets_of
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import load_cluster
from podsim.simulation.graph_steps import simulate_graph
from podsim.timeline.timelines import read_timeline
from podsim.training.software import load_software

close = pytest.approx


def made(name, batch, gpus=1, on="dgx-a100-80gb:2"):
    gpu, graph = load_gpu("a100-sxm4-80gb"), load_network(name, batch)
    software = load_software("dle-pytorch", gpu, "bf16")
    costs = graph_costs(graph, gpu, "bf16", software)
    update = update_seconds(graph, gpu, "bf16", "sgd", software)
    step = replicas_step(graph, costs, load_cluster(on), "bf16", software, update=update, gpus=gpus)
    return graph, costs, step, software


@pytest.mark.parametrize(("name", "batch"), [("resnet50", 256), ("resnet50", 4), ("bert-large-128", 32)])
def test_one_replica_takes_what_the_closed_form_says(name, batch):
    graph, costs, step, software = made(name, batch)
    seconds, timeline = simulate_graph(graph, costs, step, software)
    assert seconds == close(step.seconds)
    assert timeline.busy().sum() == close(step.seconds)


@pytest.mark.parametrize(
    ("name", "batch", "gpus"), [("resnet50", 256, 16), ("resnet50", 8, 16), ("bert-large-128", 32, 8)]
)
def test_replicas_are_near_the_closed_form(name, batch, gpus):
    """Gradients slow the backward pass by the software's contention, and end after it or not."""
    graph, costs, step, software = made(name, batch, gpus)
    seconds, timeline = simulate_graph(graph, costs, step, software)
    assert step.alone < seconds
    assert seconds == close(step.seconds, rel=0.03)
    busy = dict(zip(timeline.kinds, timeline.busy(), strict=True))
    assert busy["dp"] == close(step.reduction.took.sum())


def test_a_chain_over_devices_waits_for_each_other():
    """One batch at a time, no device computes beside another: all passes, and every tensor there and back."""
    graph, costs, step, software = made("resnet50", 256)
    part = np.minimum(np.arange(len(graph)) * 3 // len(graph), 2)
    first, members, _ = nets_of(graph)
    sends = np.zeros(len(first) - 1)
    cut = [j for j in range(len(sends)) if len(set(part[members[first[j] : first[j + 1]]])) == 2]
    sends[cut[0]] = 0.5
    whole, _ = simulate_graph(graph, costs, step, software, part=part, sends=0.0 * sends)
    seconds, timeline = simulate_graph(graph, costs, step, software, part=part, sends=sends)
    update = step.update * (np.bincount(part, graph.parameters) / graph.parameters.sum()).max()
    passes = sum(costs.passes)
    assert passes < whole <= passes + update + software.host_step + 1e-9
    assert seconds == close(whole + 2 * 0.5)
    assert [(lane.process, lane.name) for lane in timeline.lanes if lane.name == "compute"] == [
        (f"device {d}", "compute") for d in range(3)
    ]


def test_branches_on_two_devices_run_beside_each_other():
    graph, costs, step, software = made("resnet50", 64)
    part = np.array([1 if "shortcut" in name else 0 for name in graph.names])
    seconds, _ = simulate_graph(
        graph, costs, step, software, part=part, sends=np.zeros(len(nets_of(graph)[0]) - 1)
    )
    assert seconds < simulate_graph(graph, costs, step, software)[0]


def test_the_verb_writes_the_step_and_says_how_long_it_was(tmp_path):
    file = tmp_path / "step.json"
    found = podsim.graph("resnet50", batch=64, on="dgx-a100-80gb:1", timeline=[file])
    loading = found.loading  # on the cores of the host, which the timeline does not show
    assert found.simulated == close(found.data_parallel.step_time - loading, rel=0.03)
    assert read_timeline(file).seconds == close(found.simulated, rel=1e-6)
    assert "a replica" in str(json.loads(file.read_text())["traceEvents"])
    divided = podsim.graph("resnet50", batch=64, on="dgx-a100-80gb:1", devices=4, timeline=[file])
    assert divided.simulated > divided.forward + divided.backward
    assert "device 3" in file.read_text()
    assert podsim.graph("resnet50", batch=64, on="dgx-a100-80gb:1").simulated is None
    with pytest.raises(PodsimError, match="devices=4: --on has one GPU"):
        podsim.graph("resnet50", batch=64, on="a100-sxm4-80gb", devices=4, timeline=[file])


def test_simulate_says_what_plays_a_network():
    with pytest.raises(
        PodsimError, match=r"podsim graph resnet50 --batch 32 --on dgx-a100:1 --timeline step\.html"
    ):
        podsim.simulate("resnet50", on="dgx-a100:1")
