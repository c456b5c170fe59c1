"""The GPU or instance that serves, read from its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from podsim.errors import (
    CatalogError,
    PodsimError,
    unknown_name,
)
from podsim.hardware.catalog import aliases, find, load_gpu, names
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.mig.layouts import read_layout
from podsim.hardware.mig.profiles import slicing_of
from podsim.hardware.mig.split import slice_of
from podsim.hardware.parts import Gpu

_PLACE = re.compile(r"(?:(\d{1,6})\s*[x*]\s*)?([^/]+?)(?:/(.+))?")


_SLICES = re.compile(r"(?:(\d{1,3})\s*[x*]\s*)?([^,\s@:]+)")


def read_serving_gpu(on: str, overrides: Mapping[str, str] | None) -> tuple[Gpu, int, int]:
    """(GPU or instance, how many of it on one GPU, GPUs) of a text."""
    match = _PLACE.fullmatch(on.strip())
    if match is None:
        raise PodsimError(
            f"on={on[:60]!r}: expected a GPU, such as a100-40gb, a100-40gb/1g.5gb or 8xa100-40gb/7x1g.5gb"
        )
    number, name, profile = match.groups()
    keys = {key: value for key, value in (overrides or {}).items() if not key.startswith("model.")}
    count = int(number or 1)
    if not 1 <= count <= 100_000:
        raise PodsimError(f"on={on[:60]!r}: 1 to 100,000 GPUs")
    entry = find(name)
    if entry and entry[0] == "gpu":
        chip = load_gpu(name, keys)
    elif entry or ":" in name or name.lower().endswith(".toml"):
        cluster = load_cluster(name, keys)
        chip, count = cluster.gpu, count * cluster.gpus
    else:
        known = [*names("gpu"), *aliases("gpu"), *names("system")]
        raise CatalogError(unknown_name("GPU, system or cluster", name, known))
    if profile is None:
        return chip, 1, count
    return *_slices(chip, profile), count


def read_serving_cluster(on: str, overrides: Mapping[str, str] | None) -> Cluster:
    """The GPUs or instances of a text as a cluster, with one GPU where it names a GPU without a number."""
    chip, each, gpus = read_serving_gpu(on, overrides)
    match = _PLACE.fullmatch(on.strip())
    assert match is not None
    number, name, _ = match.groups()
    entry = find(name)
    keys = {key: value for key, value in (overrides or {}).items() if not key.startswith("model.")}
    if entry and entry[0] == "gpu":
        cluster = load_cluster(
            name, {f"gpu.{key}".replace("gpu.gpu.", "gpu."): keys[key] for key in keys}, gpus=gpus
        )
    elif number:
        cluster = load_cluster(f"{name}:{number}", keys)
    else:
        cluster = load_cluster(name, keys)
    if each == 1 and "/" not in chip.name:
        return cluster
    system = replace(cluster.system, gpu=chip, gpus=cluster.system.gpus * each)
    return replace(cluster, name=chip.name, system=system)


def _slices(chip: Gpu, text: str) -> tuple[Gpu, int]:
    """(instance, how many on one GPU) of "1g.5gb" or "7x1g.5gb". Raises MigError for a layout that cannot be."""
    match = _SLICES.fullmatch(text.strip())
    if match is None:
        raise PodsimError(
            f"{text[:60]!r}: expected equal instances, such as 1g.5gb or 7x1g.5gb; serve each kind alone"
        )
    number = int(match[1] or 1)
    slicing = slicing_of(chip)
    made = read_layout(slicing, f"{number}x{match[2]}")
    return slice_of(chip, made.instances[0].profile, slicing), number
