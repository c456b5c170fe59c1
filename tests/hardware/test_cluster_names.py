"""Clusters and their GPUs as users write them."""

from __future__ import annotations

import pytest

from podsim.errors import ClusterError, PodsimError, close_names
from podsim.hardware.cluster import load_cluster
from podsim.hardware.cluster_names import clusters_of, enough_nodes, is_cluster


@pytest.mark.parametrize(
    ("text", "gpus", "name"),
    [
        ("h100", 64, "dgx-h100:8"), ("h100", None, "dgx-h100"), ("h100", 4, "dgx-h100 (4 GPUs)"),
        ("dgx-h100", 64, "dgx-h100:8"), ("hgx-h100:16", 64, "dgx-h100:16 (64 GPUs)"), ("gb200", 72, "gb200-nvl72"),
        ("gb200", 144, "gb200-nvl72:2"), ("gb200", 128, "gb200-nvl72:2 (128 GPUs)"), ("a100", 16, "dgx-a100-80gb:2"),
        ("selene", 512, "selene (512 GPUs)"), ("superpod-a100", 512, "superpod-a100:4su (512 GPUs)"),
        ("superpod-a100", 480, "superpod-a100:3su"), ("superpod-a100:2su", 104, "superpod-a100:2su (104 GPUs)"),
        ("NVIDIA H100 80GB HBM3", 16, "dgx-h100:2"), ("A100-SXM4-40GB", 16, "dgx-a100-40gb:2"),
        ("64xH100", None, "dgx-h100:8"),
        ("DGX H100", 16, "dgx-h100:2"), ("8x dgx-h100", None, "dgx-h100:8"), ("h100 x 64", None, "dgx-h100:8"),
        ("gb200nvl72", 72, "gb200-nvl72"), ("rtx4090", 8, "rtx-4090-server"), ("l40s", 16, "l40s-server:2"),
    ],
)  # fmt: skip
def test_a_name_and_a_number_of_gpus_are_a_cluster(text: str, gpus: int | None, name: str) -> None:
    cluster = load_cluster(text, gpus=gpus)
    assert cluster.name == name
    assert gpus is None or cluster.gpus == gpus


@pytest.mark.parametrize(
    ("text", "gpus", "instead"),
    [
        ("h100", 60, {"gpus": 64}),
        ("h100:64", 64, {"on": "h100", "gpus": 64}),
        ("dgx-h100:2", 64, {"on": "dgx-h100", "gpus": 64}),
        ("superpod-a100:1su", 168, {"gpus": 160}),
        ("selene", 10**6, {"gpus": 4480}),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_work(
    text: str, gpus: int, instead: dict[str, object]
) -> None:
    with pytest.raises(ClusterError) as error:
        load_cluster(text, gpus=gpus)
    assert error.value.instead == instead
    fixed = {"on": text, "gpus": gpus} | instead
    assert load_cluster(str(fixed["on"]), gpus=int(str(fixed["gpus"])))


def test_texts_that_name_clusters() -> None:
    found = [
        is_cluster(text) for text in ("h100", "dgx-a100:4", "selene", "64xh100", "qm8700", "nothing", ":::")
    ]
    assert found == [True, True, True, True, False, False, False]
    assert clusters_of("h100, b200") == ["h100", "b200"]
    assert clusters_of("4,096") == ["4,096"]  # digits alone are one text
    assert [clusters_of(text) for text in (None, "", "h100")] == [[], [], ["h100"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a/b", "is no cluster; a cluster file must end in .toml"), ("a\\b", "must end in .toml"),
        ("qm8700", "qm8790 is a switch; a cluster is h100"), ("selenee", "did you mean selene"),
        ("h100:8", "may be 8 GPUs or 8 servers: .* or --on dgx-h100:8 .64 GPUs."),
    ],
)  # fmt: skip
def test_what_names_no_cluster(text: str, said: str) -> None:
    with pytest.raises(PodsimError, match=said):
        load_cluster(text)


@pytest.mark.parametrize(
    ("text", "close"), [("dgx-h10", "dgx-h100"), ("h100-smx", "h100-sxm"), ("selen", "selene")]
)
def test_a_typo_has_a_close_name(text: str, close: str) -> None:
    with pytest.raises(PodsimError) as error:
        load_cluster(text)
    assert close_names(str(error.value))[1][0] == close


def test_a_node_count_of_an_override_stays() -> None:
    assert load_cluster("dgx-h100", {"nodes": 4}, 16).nodes == 2
    assert load_cluster("dgx-h100", {"nvlink.bandwidth": "100GB/s"}, 32).nvlink.bandwidth == 100e9


@pytest.mark.parametrize(
    ("text", "gpus", "enough"),
    [
        ("dgx-h100", 64, "dgx-h100:8"), ("dgx-h100", 65, "dgx-h100:9"), ("dgx-h100", 8, "dgx-h100"),
        ("h100", 9, "dgx-h100:2"), ("dgx-h100:8", 64, "dgx-h100:8"), ("lab.toml", 64, "lab.toml"),
        ("superpod-a100", 160, "superpod-a100:1su"), ("superpod-a100", 161, "superpod-a100:2su"),
        ("superpod-a100:1su", 512, "superpod-a100:1su"),
    ],
)  # fmt: skip
def test_the_fewest_nodes_that_hold_the_gpus(text: str, gpus: int, enough: str) -> None:
    assert enough_nodes(text, gpus, 8) == enough


def test_fewer_nodes_than_gpus_need_are_refused() -> None:
    with pytest.raises(ClusterError, match="64 GPUs asked of dgx-h100:7, which has 56"):
        enough_nodes("dgx-h100:7", 64, 8)
