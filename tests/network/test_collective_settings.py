"""The settings of collectives: what texts state, what is assumed, and what no setting has."""

from __future__ import annotations

import pytest

from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.network.collective_settings import CollectiveSettings, read_table
from podsim.network.nccl import wires_of
from podsim.network.settings_text import (
    read_debug_lines,
    read_environment,
    read_launch,
    read_network_class,
    read_release,
)

_DEBUG = """\
node0:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [RO]; OOB eth0:10.0.0.1<0>
node0:1:1 [0] NCCL INFO Using network IB
NCCL version 2.18.5+cuda12.2
node0:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring
node0:1:1 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA
"""


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("NCCL_ALGO=RING;NCCL_PROTO=simple", {"algorithm": "ring", "protocol": "simple"}),
        ("FI_PROVIDER=efa", {"network": "efa"}),
        ("-x NCCL_ALGO=Ring,Tree -x NCCL_PROTO=^LL128", {"algorithm": "ring,tree", "protocol": "ll,simple"}),
        ("NCCL_TREE_THRESHOLD=0;NCCL_IB_DISABLE=1", {"algorithm": "ring", "network": "sockets"}),
        ("NCCL_COLLNET_ENABLE=1;NCCL_NET_GDR_LEVEL=LOC", {"sharp": True, "gpudirect": False}),
        ("NCCL_IB_HCA=mlx5_0:1,mlx5_1:1,mlx5_4:1", {"nics": 3}),
        ("NCCL_IB_HCA=16 HCAs", {"nics": 16}),
        ("NCCL_ALGO=^Tree,NVLS,NVLSTree,CollNet,PAT", {"algorithm": "ring"}),
        ("NCCL_ALGO=allreduce:tree", {"algorithm": "tree"}),
        ("NCCL_ALGO=Magic", {}),
        ("NCCL_NVLS_ENABLE=0 NCCL_ALGO=nvls", {"algorithm": "nvls"}),
        ("NCCL_IB_HCA=mlx5_0..7", {"nics": 8}),
        ("NCCL_IB_HCA==mlx5_0:1,mlx5_2:1,mlx5_2:2", {"nics": 2}),
        ("NCCL_IB_HCA=^mlx5_0", {}),
        ("NCCL_IB_DISABLE=1 NCCL_NET=FasTrak", {"network": "tcpxo"}),
        ("FI_CXI_ATS=0", {"network": "slingshot"}),
        ("FI_CXI_ATS=0 NCCL_NET=Socket", {"network": "sockets"}),
        ("FI_EFA_USE_DEVICE_RDMA=0", {"network": "efa", "gpudirect": False}),
        ("NCCL_NET_GDR_LEVEL=SYS", {"gpudirect": True}),
        ("NCCL_IB_CUDA_SUPPORT=0", {"gpudirect": False}),
        ("NCCL_COLLNET_ENABLE=0", {"sharp": False}),
        ("NCCL_MIN_CTAS=16", {"tuned": True}),
        ("see job.yaml (not transcribed)", {}),
    ],
)  # fmt: skip
def test_environment_words(text: str, stated: dict[str, object]) -> None:
    assert read_environment(text).stated == stated


def test_debug_lines() -> None:
    assert read_debug_lines(_DEBUG).stated == {
        "release": "2.18.5", "algorithm": "ring", "nics": 3, "network": "infiniband", "gpudirect": True,
    }  # fmt: skip
    copied = read_debug_lines(_DEBUG.replace("/GDRDMA", "").replace("/IB ", "/RoCE "))
    assert (copied.network, copied.gpudirect) == ("roce", False)
    cloud = "NET/OFI Selected Provider is efa\nChannel 00 : 0 -> 8 [send] via NET/AWS Libfabric/0/GDRDMA\n"
    assert read_debug_lines(cloud).stated == {"network": "efa", "gpudirect": True}
    copies = read_debug_lines("Channel 00 : 0 -> 8 via NET/Socket/0")
    assert copies.stated == {"network": "sockets", "gpudirect": False}
    assert read_debug_lines("Selected provider is cxi").stated == {"network": "slingshot"}
    assert read_debug_lines("NET/Plugin: EFA with Libfabric").stated == {"network": "efa"}
    assert read_debug_lines("CollNet/SHARP rail 0").stated == {"sharp": True}


@pytest.mark.parametrize(
    ("text", "launch"),
    [
        ("1 process per GPU (MPI)", "process"),
        ("-g 8, 1 process per node", "single"),
        ("nccl-tests -t 2 threads 1 proc", "thread"),
        ("1 thread, 1 rank per GPU", "process"),
        ("one process for each rank", "process"),
        ("single process for all", "single"),
        ("mpirun -np 8", "process"),
        ("unknown", None),
    ],
)
def test_launch_words(text: str, launch: str | None) -> None:
    assert read_launch(text) == launch


def test_words_of_tables() -> None:
    assert [read_release(text) for text in ("2.8-2.17", "not printed (image pytorch_2303)", "2.21.5 (vLLM)")] == [
        "2.8", None, "2.21.5",
    ]  # fmt: skip
    assert [read_release(text) for text in ("v2.21.5", "12.2.14", "2.3", "2.41.1")] == [
        "2.21.5",
        None,
        None,
        None,
    ]
    assert [read_network_class(text) for text in ("8x 200GbE TCPXO", "4x 200GbE TCPX", "8x NDR400 IB", "none")] == [
        "tcpxo", "tcpx", "infiniband", None,
    ]  # fmt: skip
    adapters = ("EFAv2", "EFA v1 4x100", "EFA", "Slingshot 11", "ConnectX-6 RoCE", "25GbE TCP")
    assert [read_network_class(text) for text in adapters] == [
        "efa-v2", "efa-v1", "efa", "slingshot", "roce", "sockets",
    ]  # fmt: skip


def test_assumed_settings_are_named() -> None:
    stated = CollectiveSettings(release="2.18", network="efa")
    settings = stated.assumed(load_cluster("aws-p4d:2"))
    assert settings.network == "efa-v1"
    assert settings.nics == 4
    assert "release" not in settings.assumptions
    assert {"algorithm", "launch"} <= set(settings.assumptions)
    assert settings.alternatives()[0] == settings
    assert {other.launch for other in settings.alternatives()} == {"process", "thread", "single"}


def test_a_cluster_states_its_settings() -> None:
    cluster = load_cluster("dgx-a100-80gb:2", {"collectives.launch": "single", "collectives.sharp": True})
    settings = CollectiveSettings(launch="process").assumed(cluster)
    assert (settings.launch, settings.sharp) == ("process", True)
    assert "sharp" not in settings.assumptions


def test_wrong_values_are_named() -> None:
    with pytest.raises(PodsimError, match="algorithm 'rings'"):
        CollectiveSettings(algorithm="rings")
    with pytest.raises(PodsimError, match="setting of a collective 'speed'"):
        read_table({"speed": "high"})


def test_without_gpudirect_adapters_have_the_rate_of_their_way_through_the_host():
    cluster = load_cluster("dgx-a100:2")
    for network, gpudirect, rate in (
        ("infiniband", False, 24.4e9 / 4),  # two GPUs and two adapters on each switch's way up
        ("infiniband", True, 25e9),
        ("infiniband", None, 25e9),
        ("sockets", False, 25e9),
    ):
        settings = CollectiveSettings(network=network, gpudirect=gpudirect)
        assert wires_of(cluster, settings.assumed(cluster)).network == pytest.approx(rate)


@pytest.mark.parametrize(
    ("given", "protocols"),
    [
        ({"release": "2.4.8"}, ("ll", "simple")), ({"release": "2.5"}, ()), ({"release": "2.18"}, ()),
        ({"gpudirect": False}, ("ll", "simple")), ({"gpudirect": False, "network": "sockets"}, ()),
    ],
)  # fmt: skip
def test_ll128_needs_a_release_and_gpudirect(given, protocols):
    assert CollectiveSettings(**given).open_protocols == protocols
