"""Slices of a torus, as users name them, and the part of a system that is one.

v5p-1024          a slice by its maker's name, which counts cores up to v5p and chips from v5e on
tpu-v4:64         64 chips                          tpu-v5p:8x8x16    the chips along each axis
2x v6e-256        two slices                        v4:4x4x8-twisted  links around the short axes shifted
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import ceil, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Ints, Shaped
from podsim.errors import ClusterError, UnitError
from podsim.hardware.parts import System, TorusLinks

MOST_CHIPS = 1_000_000
_SIZE = r"(?P<size>\d{1,4}(?:\s*x\s*\d{1,4}){1,2}|\d[\d,]{0,8})(?P<twisted>[-_ ]twisted)?"


class SliceText(NamedTuple):
    """A slice's text in parts."""

    slices: int
    size: str
    """The number of chips, or of cores where `in_cores`; or the chips along each axis."""
    in_cores: bool
    twisted: bool


def slice_text(named: re.Match[str]) -> SliceText:
    """The parts of a text that names slices of a torus (podsim.hardware.cluster_names)."""
    size = re.sub(r"[\s,]", "", named["size"].lower())
    slices = int((named["count"] or "1").replace(",", ""))
    return SliceText(slices, size, named["sign"] == "-", bool(named["twisted"]))


def named_links(torus: TorusLinks, text: SliceText, chip: str) -> TorusLinks:
    """The links of a slice of a chip by its text. Raises ClusterError for what is no slice of it."""
    if "x" in text.size:
        return shaped_links(torus, tuple(map(int, text.size.split("x"))), text.twisted, chip)
    cores = torus.cores if text.in_cores else 1
    chips, rest = divmod(int(text.size), cores)
    if rest or not chips:
        raise ClusterError(
            f"{chip}-{text.size} counts cores, {cores} a chip: give an even number, or chips as {chip}:64"
        )
    return shaped_links(torus, shape_of(torus, chips, chip), text.twisted, chip)


def shape_of(torus: TorusLinks, chips: int, chip: str) -> tuple[int, ...]:
    """The usual shape of a slice of a number of chips: the one listed, or the most cubic one of whole cubes.

    Raises ClusterError, with the nearest sizes, for a number that makes no slice.
    """
    shapes = [shape for shape in _shapes(torus, chips) if prod(shape) == chips]
    if shapes:
        return min(shapes, key=lambda shape: (max(shape), shape))
    sizes = sorted({prod(shape) for shape in _shapes(torus, chips)})
    near = [size for size in sizes if size < chips][-1:] + [size for size in sizes if size > chips][:1]
    works = " or ".join(f"{size} ({_text(shape_of(torus, size, chip))})" for size in near)
    more = f"; more are several slices, as 2x {chip}:{_text(torus.pod)}" if chips > prod(torus.pod) else ""
    raise ClusterError(f"{chips} chips are no slice of {chip}: {works} would be{more}").offer(gpus=near[-1])


def shaped_links(torus: TorusLinks, shape: tuple[int, ...], twisted: bool, chip: str) -> TorusLinks:
    """The links of a slice of a shape. Raises ClusterError for a shape that is no slice, and for a twist of it."""
    cube, ordered = torus.cube, tuple(sorted(shape))
    known = ordered in (*map(tuple, map(sorted, torus.slices)), tuple(sorted(torus.pod)))
    is_cubes = bool(cube) and len(shape) == 3 and all(side > 0 and side % cube == 0 for side in shape)
    if not (known and len(shape) == len(torus.pod)) and not (is_cubes and prod(shape) <= prod(torus.pod)):
        cubes = f", or sides that are multiples of {cube}" if cube else ""
        listed = ", ".join(map(_text, (*torus.slices, torus.pod)))
        raise ClusterError(f"{_text(shape)} is no slice of {chip}; slices are {listed}{cubes}")
    least, most = ordered[0], ordered[-1]
    if twisted and not (is_cubes and most == 2 * least and ordered[1] in (least, most)):
        raise ClusterError(f"{_text(shape)} cannot be twisted; n x n x 2n and n x 2n x 2n can, as 4x4x8")
    return replace(torus, shape=shape, twisted=twisted)


def cut_system(system: System, nics: int, gpus: int, links: TorusLinks | None = None) -> System:
    """The part of a system with some of its GPUs, and their share of its adapters, trays and power.

    A slice of a torus has its share of the memory, too. `links`: those of the slice, if not the usual ones.
    """
    per, torus = system.gpus, links or system.torus
    if torus is not None and links is None:
        torus = replace(torus, shape=shape_of(torus, gpus, system.gpu.name), twisted=False)
    share = gpus / per if torus is not None else 1.0
    return replace(
        system, gpus=gpus, nics=ceil(nics * gpus / per), trays=ceil(system.trays * gpus / per), torus=torus,
        memory=share * system.memory, power=system.power * gpus / per, datasheet={},
    )  # fmt: skip


def torus_system(system: System, text: str) -> System:
    """The system with its GPUs on a torus that a user's text shapes, such as "8x8x16" or "4x4x8-twisted".

    A chip with slices keeps to them; other GPUs with links make any torus. Raises ClusterError for one that cannot be.
    """
    size = re.fullmatch(_SIZE, text.strip().lower())
    if size is None or "x" not in size["size"]:
        raise ClusterError(f"torus {text[:40]!r}; give the chips along each axis, such as 8x8x16")
    named = SliceText(1, re.sub(r"\s", "", size["size"]), False, bool(size["twisted"]))
    shape = tuple(map(int, named.size.split("x")))
    if not 1 <= prod(shape) <= MOST_CHIPS:
        raise ClusterError(
            f"a torus of {_text(shape)} chips; give sides of at least 1, {MOST_CHIPS:,} chips in all"
        )
    if system.torus is not None:
        return cut_system(system, system.nics, prod(shape), named_links(system.torus, named, system.gpu.name))
    if not system.gpu.nvlinks:
        raise ClusterError(f"torus {text[:40]}: {system.gpu.name} has no links to neighbours (gpu.nvlinks)")
    free = TorusLinks(shape=shape, pod=shape, twisted=False)
    return replace(
        cut_system(system, system.nics, prod(shape), free), topology="torus", nvswitch=None, nvswitches=0
    )


def read_torus(value: object, what: str) -> str:
    """The text of a torus in a user's file; UnitError for anything else."""
    if not isinstance(value, str) or not re.fullmatch(_SIZE, value.strip().lower()):
        raise UnitError(
            f"{what}: {str(value)[:40]!r} will not do; expected the chips along each axis, as 8x8x16"
        )
    return value


def twist_shifts(shape: tuple[int, ...]) -> Ints:
    """The shift along each axis of the link that closes a ring of a twisted torus, [axis of the ring, axis]."""
    short = np.array(shape) == min(shape)
    return np.asarray(np.outer(short, ~short) * (max(shape) // 2), np.int64)


def twisted_images(
    shape: tuple[int, ...], away: Shaped[Ints, "dimension pair"]
) -> tuple[Ints, NDArray[np.bool_]]:
    """(signed steps along each axis to each image of a chip in a twisted torus, whether none is closer).

    `away`: the coordinates of the chip less those of the source, [axis, pair]; results [image, axis, pair] and [image,
    pair].
    """
    sides, shifts = np.array(shape)[:, None], twist_shifts(shape)
    closing = [bool(shifted.any()) for shifted in shifts]
    turns = np.array(list(product(*((-1, 0, 1) if closes else (-1, 0) for closes in closing))))
    moved = np.stack([away - ((rounds * np.array(closing)) @ shifts)[:, None] for rounds in turns])
    steps = np.where(np.array(closing)[:, None], moved, moved % sides)  # [image, dimension, pair]
    images = steps + turns[:, :, None] * sides  # [image, dimension, pair]
    length = np.abs(images).sum(axis=1)  # [image, pair]
    return images, length == length.min(axis=0)


def named_slices(chip: str, system: System, links: TorusLinks, slices: int) -> tuple[str, System]:
    """The name of slices, "2x tpu-v6e:16x16", and one of them as a system."""
    part = cut_system(system, system.nics, prod(links.shape), links)
    return f"{f'{slices}x ' * (slices > 1)}{chip}:{_text(links.shape)}{'-twisted' * links.twisted}", part


def _shapes(torus: TorusLinks, chips: int) -> list[tuple[int, ...]]:
    """All listed shapes, and those of whole cubes of up to this number of chips and the next."""
    listed = [*torus.slices, torus.pod]
    if not torus.cube:
        return listed
    block = torus.cube**3
    most = prod(torus.pod) // block
    wanted = {min(max(chips // block + more, 1), most) for more in (0, 1)}
    sides = [side for side in range(1, most + 1) if any(count % side == 0 for count in wanted)]
    cubes = [sides_ for sides_ in combinations_with_replacement(sides, 3) if prod(sides_) in wanted]
    return [*listed, *(tuple(torus.cube * side for side in shape) for shape in cubes)]


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
