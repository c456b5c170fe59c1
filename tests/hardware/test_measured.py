"""The file that `podsim measure host` writes is a cluster of its ranks, and every prediction takes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import podsim
from podsim.errors import CatalogError, ClusterError
from podsim.hardware.cluster import load_cluster
from podsim.hardware.measured_host import Host, interpolate
from podsim.kernels.constants import kernel_constants
from podsim.kernels.gemm import gemm_seconds
from podsim.network.nccl import Members, choice, collective_seconds, send_seconds
from podsim.report.collectives import nccl_tests_text
from podsim.storage.catalog import load_storage
from podsim.training.software import load_software
from podsim.workload.catalog import load_model

FILE = Path(__file__).parent / "data" / "host.toml"


def _file(tmp_path: Path, old: str, new: str) -> str:
    text = FILE.read_text("utf-8")
    assert old in text
    path = tmp_path / "host.toml"
    path.write_text(text.replace(old, new, 1), "utf-8")
    return str(path)


def test_it_is_a_cluster_of_its_ranks() -> None:
    cluster = load_cluster(str(FILE))
    assert (cluster.name, cluster.gpus, cluster.nodes, cluster.fabric) == ("two-cores", 8, 1, "none")
    assert cluster.gpu.architecture == "cpu"
    assert "podsim measure host" in cluster.source
    assert cluster.host is not None
    assert cluster.host.images[2] > 0
    changed = load_cluster(str(FILE), {"gpus_per_node": "4", "gpu.memory": "1 GB"})
    assert (changed.gpus, changed.gpu.memory, changed.host) == (4, 1e9, cluster.host)


def test_kernels_and_software_are_its_own() -> None:
    cluster = load_cluster(str(FILE))
    constants = kernel_constants(cluster.gpu)
    assert not constants.extrapolated
    assert set(constants.gemm) == {"fp32", "bf16"}
    seconds = gemm_seconds(cluster.gpu, [256, 512], 512, 512, precision="fp32")
    flops = 2 * np.array([256, 512]) * 512 * 512 / seconds
    assert (flops <= cluster.gpu.peaks["fp32"] * 1.0001).all()
    assert (flops > 0.3 * cluster.gpu.peaks["fp32"]).all()
    software, plain = load_software("pytorch-eager", cluster.gpu), load_software("pytorch-eager")
    assert (software.norm_traffic, software.gradient_bytes) != (plain.norm_traffic, 2.0)
    assert load_software("megatron-core", cluster.gpu) == load_software("megatron-core")


def test_collectives_are_those_that_were_measured() -> None:
    cluster = load_cluster(str(FILE))
    assert cluster.host is not None
    rows = {(one.collective, one.ranks): one for one in cluster.host.exchanges}
    for (collective, ranks), row in rows.items():
        told = collective_seconds(collective, [1e3, 1e7], cluster, Members(ranks=ranks, ranks_per_node=ranks))
        assert told == pytest.approx([row.latency + size * row.per_byte for size in (1e3, 1e7)]), collective
    # between measured numbers of ranks by the logarithm: six ranks lie at 0.585 of the way from four to eight
    four, eight = (rows["all_reduce", n].latency for n in (4, 8))
    six = float(collective_seconds("all_reduce", 0.0, cluster, Members(ranks=6, ranks_per_node=6)))
    assert six == pytest.approx(four + np.log2(6 / 4) * (eight - four))
    assert choice("all_reduce", 1e6, cluster, ranks=8, ranks_per_node=8).algorithm == "ring"
    assert float(send_seconds(1e6, cluster, crosses_node=False)) > 0
    assert float(collective_seconds("all_reduce", 1e6, cluster, Members(ranks=1, ranks_per_node=1))) == 0.0


def test_what_syncs_took_within_a_layer_is_what_tensor_parallelism_costs(tmp_path: Path) -> None:
    plain = load_cluster(str(FILE))
    assert plain.host is not None
    assert plain.host.syncs == ()
    entry = "\n[[sync]]\nranks = {0}\nlatency = {1}\nper_byte = {2}\n"
    path = tmp_path / "host.toml"
    text = FILE.read_text("utf-8") + entry.format(2, 1e-3, 1e-8) + entry.format(8, 3e-3, 3e-8)
    path.write_text(text, "utf-8")
    host = load_cluster(str(path)).host
    assert host is not None
    assert interpolate(host.syncs, 4) == (pytest.approx(2e-3), pytest.approx(2e-8))
    given = {"gpus": 8, "batch": 8, "micro_batch": 1, "precision": "fp32"}
    one, four = (podsim.predict("gpt-tiny", on=str(path), tp=tp, dp=8 // tp, **given) for tp in (1, 4))  # type: ignore[arg-type]
    assert "tp" not in one.parts or one.parts["tp"] == 0
    model = load_model("gpt-tiny")
    # two syncs forward and two backward in each layer, one for the embedding and one for the head; four micro-batches
    size = 4.0 * model.hidden * model.sequence
    count = 4 * sum(block.count for block in model.layers) + 2
    assert four.parts["tp"] == pytest.approx(4 * count * (2e-3 + 2e-8 * size))


def test_what_weights_took_under_zero_3_is_what_it_costs(tmp_path: Path) -> None:
    path = tmp_path / "host.toml"
    entry = "\n[[shard]]\nranks = 8\nlatency = {}\nper_byte = 1e-8\n"
    given = {"gpus": 8, "batch": 8, "micro_batch": 1, "precision": "fp32", "zero": 3, "overlap_param": False}
    steps = []
    for latency in (1e-3, 2e-3):
        path = tmp_path / f"host{latency}.toml"
        path.write_text(FILE.read_text("utf-8") + entry.format(latency), "utf-8")
        steps.append(podsim.predict("gpt-tiny", on=str(path), overlap_grad=False, **given).step_time)  # type: ignore[arg-type]
    layers = sum(block.count for block in load_model("gpt-tiny").layers)
    # a layer's weights are gathered twice, its gradients reduced once; embedding and head are one more of each
    assert (steps[1] - steps[0]) / 1e-3 == pytest.approx(3 * layers + 1, abs=3)


def test_cores_are_shared_by_ranks_of_processors_alone(tmp_path: Path) -> None:
    host = load_cluster(str(FILE)).host
    assert host is not None
    assert host.share == 2 / 8
    gpus = load_cluster(_file(tmp_path, "compute_capability = 0.0", "compute_capability = 8.0")).host
    assert gpus is not None
    assert gpus.share == 1.0


def test_a_simulated_pipeline_says_that_waiting_ranks_keep_their_cores() -> None:
    given = {"on": str(FILE), "gpus": 8, "batch": 8, "precision": "fp32"}
    piped, alone = (podsim.simulate("gpt-tiny", pp=pp, dp=8 // pp, **given) for pp in (8, 1))  # type: ignore[arg-type]
    assert any("ranks share cores" in warning for warning in piped.warnings)
    assert not any("ranks share cores" in warning for warning in alone.warnings)
    assert piped.step_time > piped.closed_form


def test_nobody_says_that_nccl_or_a_gpu_did_it() -> None:
    text = nccl_tests_text(podsim.collective("all-reduce", on=str(FILE), sizes="1M:1M:4"))
    assert "[0x01] CPU" in text
    assert "measured to take" in text
    assert "NVIDIA" not in text
    assert "NCCL" not in text


def test_its_disk_is_that_of_a_node() -> None:
    system, clients = load_storage("local-nvme", client=str(FILE))
    assert clients == 1
    assert system.server.ssd is not None
    assert system.read_latency == system.server.ssd.read_latency > 0
    known, _ = load_storage("local-nvme", client="dgx-a100-80gb")
    assert known.read_latency == pytest.approx(100e-6)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("version = 1", "version = 2", r"host\.toml: version: Input should be 1"),
        ("ranks = 8\n", "", "ranks: Field required"),
        ("[link]", "[cable]", "link: Field required.*cable: Extra inputs"),
        ("[rank]", "[rank]\nspeed = 3.0", "rank.speed: Extra inputs are not permitted"),
        ("per_byte = ", "per_byte = -", "per_byte: must be a number above 0, in SI"),
        ('collective = "all_reduce"', 'collective = "all_reduced"', "exchange.0.collective"),
    ],
)
def test_files_that_are_wrong_are_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    with pytest.raises(CatalogError, match=problem):
        load_cluster(_file(tmp_path, old, new))


def test_ranks_need_what_they_exchange(tmp_path: Path) -> None:
    text = FILE.read_text("utf-8")
    blocks = text.split("\n\n")
    path = tmp_path / "host.toml"
    path.write_text("\n\n".join(block for block in blocks if not block.startswith("[[exchange]]")))
    with pytest.raises(CatalogError, match="8 ranks, and no exchange between them"):
        load_cluster(str(path))
    kept = [block for block in blocks if 'collective = "broadcast"' not in block]
    path.write_text("\n\n".join(kept))
    cluster = load_cluster(str(path))
    with pytest.raises(ClusterError, match="broadcast was not measured on this machine"):
        collective_seconds("broadcast", 1e6, cluster, Members(ranks=8, ranks_per_node=8))


def test_software_constants_that_are_none_are_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, "norm_traffic", "norm_trafic")
    with pytest.raises(CatalogError, match="did you mean norm_traffic"):
        load_software("pytorch-eager", load_cluster(path).gpu)


def test_a_busy_machine_and_a_bad_law_are_told() -> None:
    quiet = Host(file="/folder/mine.toml", exchanges=(), others=0.0, law_error=0.2)
    assert quiet.warning == ""
    bad = replace(quiet, law_error=0.21)
    assert (
        bad.warning
        == "mine.toml: the kernel law is off by 21% on its own rows; measure again on an idle machine"
    )
    both = replace(bad, others=0.5).warning
    assert "other programs used 50% of the processors while it was measured; the kernel law is off" in both
