from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim.schedules.actions import chunk_sizes
from podsim.training.pipeline_stages import stages_table
from podsim.training.plan import Plan
from podsim.workload.model import Model


def test_even_layers() -> None:
    assert chunk_sizes(96, 8) == [12] * 8


def test_llama_405b_in_eight_stages_spares_the_edges() -> None:
    # 126 layers and the two edges make 128: 15 + embedding, six of 16, 15 + head
    assert chunk_sizes(126, 8) == [15, 16, 16, 16, 16, 16, 16, 15]


@given(layers=st.integers(1, 200), chunks=st.integers(1, 64))
def test_every_layer_is_somewhere(layers: int, chunks: int) -> None:
    sizes = chunk_sizes(layers, chunks)
    assert sum(sizes) == layers
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("pp", "virtual", "classes"), [(1, 1, 1), (2, 1, 2), (8, 1, 3), (8, 3, 3)])
def test_stage_classes_hold_the_whole_model(gpt3: Model, pp: int, virtual: int, classes: int) -> None:
    stages = stages_table(gpt3, Plan(pp=pp, virtual_stages=virtual).arrays())
    assert (stages.count > 0).sum() == classes
    held = (stages.blocks * stages.count[:, None]).sum(axis=0)[:, 0]
    assert held.tolist() == [1, 96, 1]
