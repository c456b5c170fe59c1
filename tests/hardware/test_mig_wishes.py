"""Jobs that ask for GPUs or instances, read from their texts."""

from __future__ import annotations

import pytest

from podsim.errors import MigError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.best import Wish
from podsim.hardware.mig.mig_plans import WHOLE
from podsim.hardware.mig.profiles import slicing_of
from podsim.hardware.mig.wishes import read_machine, read_wishes

A100 = slicing_of(load_gpu("a100-sxm4-40gb"))


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("training:4xgpu", Wish(name="training", count=4, profile=WHOLE)),
        ("a-1 = 14 * 1g", Wish(name="a-1", count=14, profile="1g.5gb")),
        ("inference:1x3g.20gb", Wish(name="inference", count=1, profile="3g.20gb")),
        ("bert:5x8GB@0.4", Wish(name="bert", count=5, memory=8e9, fixed=0.4)),
        ("bert:100000x8 GiB", Wish(name="bert", count=100_000, memory=8 * 2**30)),
    ],
)
def test_a_wish(text: str, wish: Wish) -> None:
    assert read_wishes(A100, [text]) == (wish,)


def test_all_that_cannot_be_read_is_told_at_once() -> None:
    texts = [
        "x",
        "Bad:1xgpu",
        "a:0x1g",
        "b:100001x1g",
        "c:1x1g@0.5",
        "d:1x9g",
        "e:1x8GB@0.4.1",
        "f:1x1g",
        "f:2x2g",
    ]
    with pytest.raises(MigError) as caught:
        read_wishes(A100, texts)
    said = [
        "x: expected NAME:NUMBERxWHAT", "name 'Bad'", "a:0x1g: 0 jobs; 1 to 100,000", "100001 jobs",
        "@0.5 belongs to a job that takes any instance; 1g.5gb was asked for", "; or gpu, or a memory such as 8GB",
        "@0.4.1: the share of time", "f is given twice",
    ]  # fmt: skip
    assert len(caught.value.problems) == len(said)
    assert all(text in problem for text, problem in zip(said, caught.value.problems, strict=True))
    with pytest.raises(MigError, match="no jobs; give some"):
        read_wishes(A100, [])


def test_the_machine_that_is_divided() -> None:
    gpu, nodes, per = read_machine("a100-sxm4-40gb")
    assert (gpu.name, nodes, per) == ("a100-sxm4-40gb", 1, 1)
    gpu, nodes, per = read_machine("dgx-a100-40gb:3")
    assert (gpu.name, nodes, per) == ("a100-sxm4-40gb", 3, 8)
