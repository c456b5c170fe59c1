"""Sizes of `podsim collective`, read as nccl-tests reads them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from podsim.errors import PodsimError
from podsim.network.settings_text import read_nics
from podsim.network.sizes import read_sizes


@pytest.mark.parametrize(
    ("sizes", "collective", "wanted"),
    [
        ("8:64:2", "all-reduce", (8, 16, 32, 64)),
        ("8:63:3", "all-reduce", (8, 24)),
        ("8:32:+8", "all-reduce", (8, 16, 24, 32)),
        ("8:40:+16", "all-reduce", (8, 24, 40)),
        ("1K:4KiB", "all-reduce", (1024, 2048, 4096)),
        (" 1G ", "broadcast", (2**30,)),
        ("1024T", "broadcast", (2**50,)),
        (4096, "all-gather", (4096,)),
        ([12, 8], "all-reduce", (12, 8)),
        ("", "all-reduce", tuple(2**power for power in range(3, 35))),
        ("", "all-gather", tuple(16 * 2**power for power in range(31))),
    ],
)
def test_sizes_of_a_sweep(sizes: str | int | Sequence[int], collective: str, wanted: tuple[int, ...]) -> None:
    assert read_sizes(sizes, collective, 4) == wanted


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("big", "'big' is no size"),
        ("8:big", "'big' is no size"),
        ("0", "0 B; a size is 1 B"),
        ("1025T", "a size is 1 B to 1024T"),
        ("8:64:x", "'x' is no factor"),
        ("8:64:1", "factor 1; it must be 2 or more"),
        ("8:64:+x", "'x' is no size"),
        ("64:8", "below its start 64 B"),
        ("1:2:3:4", "4 parts"),
        ("16:24:+8", "24 B is no whole number of floats (4 B) for each of 4 ranks; multiples of 16 B are"),
        ("16:16G:+16", "more than 1000 sizes"),
        ([16] * 1001, "1001 of them; at most 1000"),
    ],
    ids=str,
)
def test_what_is_no_size(sizes: str | Sequence[int], message: str) -> None:
    with pytest.raises(PodsimError) as error:
        read_sizes(sizes, "all-gather", 4)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "nics"),
    [("4", (4, None)), ("4x100Gb/s", (4, 12.5e9)), ("8 x 50 GB/s", (8, 50e9)), ("200 Gb/s", (None, 25e9))],
)
def test_adapters_of_a_node(text: str, nics: tuple[int | None, float | None]) -> None:
    assert read_nics(text) == nics


def test_other_texts_are_no_adapters() -> None:
    with pytest.raises(PodsimError, match="adapters of a node, as 4"):
        read_nics("four")
