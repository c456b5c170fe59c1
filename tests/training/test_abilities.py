from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from podsim.hardware.cluster import Cluster, load_cluster
from podsim.training.abilities import ABILITIES, is_available, lacking_titles
from podsim.training.plan import Plan
from podsim.training.search_limits import Space
from podsim.training.search_space import space
from podsim.training.software import Software, load_software, software_names
from podsim.workload.catalog import load_model


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return load_cluster("dgx-a100-80gb:2")


def _values(cluster: Cluster, software: Software, wanted: Space) -> Callable[[str], NDArray[Any]]:
    """The values that a field of the space has, by its name."""
    fixed = Plan(global_batch=64, sequence=2048, software=software.name)
    legal = space(load_model("gpt-7.5b"), cluster, fixed, 16, wanted, software)
    modes = legal.columns(np.arange(len(legal.modes)))
    zero = {"zero": np.array([division.zero for division in legal.divisions])}
    return lambda name: np.asarray({**modes, **zero}.get(name, getattr(legal.rows, name)))


@pytest.mark.parametrize("name", software_names())
def test_what_software_lacks_is_known_by_name(name: str) -> None:
    lacks = load_software(name).lacks
    assert set(lacks) <= set(ABILITIES)
    assert len(set(lacks)) == len(lacks)


def test_an_ability_is_of_a_field_of_a_plan() -> None:
    assert all(hasattr(Plan(), one.field) for one in ABILITIES.values())
    assert lacking_titles(Plan(), Software(name="bare", title="", source="", lacks=tuple(ABILITIES))) == (
        "flash attention",
    )


@pytest.mark.parametrize("name", ["megatron-deepspeed", "megatron-2021", "megatron-2022", "llm-foundry-2023"])
def test_a_search_leaves_out_what_the_framework_lacks(cluster: Cluster, name: str) -> None:
    software = load_software(name)
    values = _values(cluster, software, {})
    for lacking in software.lacks:
        one = ABILITIES[lacking]
        assert not np.any(one.uses(values(one.field))), one.title
    full = _values(cluster, load_software("megatron-core"), {})
    for other in set(ABILITIES) - set(software.lacks) - {"experts"}:
        one = ABILITIES[other]
        assert np.any(one.uses(values(one.field))) == np.any(one.uses(full(one.field)))


def test_what_is_asked_for_by_name_is_searched_all_the_same(cluster: Cluster) -> None:
    values = _values(cluster, load_software("megatron-2021"), {"sequence_parallel": (True,), "tp": (8,)})
    assert np.all(values("sequence_parallel"))


def test_values_of_other_fields_are_available() -> None:
    software = load_software("megatron-2021")
    assert is_available("zero", np.arange(4), software).tolist() == [True, False, False, False]
    assert is_available("tp", np.arange(1, 4), software).all()
