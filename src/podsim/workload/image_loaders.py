"""Core seconds that a loader needs to prepare one image, for laws of graphs and of storage alike.

    core seconds = core seconds of an image of 224 x 224 pixels x max(1, pixels / 224^2)

The cores of a node prepare images side by side, so it prepares `cores / core seconds` of them a second. Source: counting,
with the constants of image_loaders.toml. Known error: a lower bound of the time, since workers that hold a lock or share
a socket are slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from podsim.errors import PlanError, check_name
from podsim.packaged import packaged_toml
from podsim.units import parse_quantity

SYNTHETIC = "synthetic"
"""The loader of data that are in memory already: no work."""
_PIXELS = 224.0 * 224.0
"""count. The pixels of the image that image_loaders.toml counts."""


@dataclass(frozen=True, kw_only=True)
class ImageLoader:
    """What reads, decodes and augments images."""

    title: str
    image: float
    """s. The time of one core for an image of 224 x 224 pixels."""
    software: tuple[str, ...]
    """The software entries whose published runs use it."""
    source: str

    def core_seconds(self, pixels: float = _PIXELS) -> float:
        """Seconds of one core for an image that becomes so many pixels."""
        return self.image * max(1.0, pixels / _PIXELS)


@cache
def image_loaders() -> Mapping[str, ImageLoader]:
    """The packaged loaders by name."""
    tables = packaged_toml("workload/image_loaders.toml")
    made = {
        name: ImageLoader(
            title=part["title"], image=parse_quantity(part["image"], "s"), software=tuple(part["software"]),
            source=part["source"],
        )
        for name, part in tables.items()
    }  # fmt: skip
    return {**made, SYNTHETIC: ImageLoader(title="data in memory", image=0.0, software=(), source="")}


def load_image_loader(name: str) -> ImageLoader:
    """The loader of a name. Raises PlanError for an unknown one."""
    check_name("loader", name, image_loaders(), PlanError)
    return image_loaders()[name]


def loader_of_software(software: str) -> str:
    """The loader of the published runs of a software entry; synthetic for one without."""
    loaders = image_loaders()
    return next((name for name, loader in loaders.items() if software in loader.software), SYNTHETIC)
