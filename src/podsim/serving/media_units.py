"""Decoders, encoders and JPEG engines of each GPU and MIG instance, and what they do a second.

Counts of MIG instances and their GPUs are those of their profiles; others, and the rates of a unit, stand with their
sources in media_units.toml. A rate goes with the inverse of the pixels of a frame.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podsim.errors import PodsimError, check_name, unknown_name
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.profiles import find_profile, slicing_of
from podsim.hardware.parts import Gpu
from podsim.packaged import packaged_toml

_VIDEO = re.compile(r"(?:(\d{2,5})x(\d{2,5})|(\d{3,4})p|([48])k)(?:@|p)?(\d{1,3}(?:\.\d+)?)?", re.IGNORECASE)
_SIZES = {"4": (3840, 2160), "8": (7680, 4320)}
_REFERENCE = 1920 * 1080
"""count. The pixels of a frame whose rates media_units.toml has."""


@dataclass(frozen=True, kw_only=True)
class MediaUnits:
    """The fixed-function units of one GPU or instance."""

    decoders: int
    encoders: int
    jpegs: int
    """The number of JPEG engines."""
    decode: Mapping[str, float]
    """1/s. The frames of 1920 x 1080 that a decoder decodes, by codec."""
    encode: Mapping[str, float]
    """1/s. The frames of 1920 x 1080 that an encoder encodes, by codec."""
    jpeg: float
    """1/s. The images of 1920 x 1080 that a JPEG engine decodes."""
    source: str
    confirmed: str
    """Whether the rates were read in their source: yes or no."""


@dataclass(frozen=True, kw_only=True)
class Video:
    """Frames of a stream."""

    width: int
    height: int
    rate: float
    """1/s. The frames of a second."""

    @property
    def scale(self) -> float:
        """The pixels over those of 1920 x 1080."""
        return self.width * self.height / _REFERENCE


def read_video(text: str) -> Video:
    """A size and frames a second: 1080p30, 4k60, 1280x720@25; 30 frames where none are given. PodsimError for another."""
    match = _VIDEO.fullmatch(text.strip())
    if match is None:
        raise PodsimError(
            f"video={text[:40]!r}: size and frames a second, such as 1080p30, 4k60 or 1280x720@25"
        )
    width, height, lines, k, rate = match.groups()
    if lines:
        width, height = round(int(lines) * 16 / 9), int(lines)
    elif k:
        width, height = _SIZES[k]
    made = Video(width=int(width), height=int(height), rate=float(rate or 30))
    if not (16 <= made.width <= 16384 and 16 <= made.height <= 16384 and 0 < made.rate <= 960):
        raise PodsimError(f"video={text[:40]!r}: 16 to 16,384 pixels each way, and up to 960 frames a second")
    return made


def _tables() -> Mapping[str, Any]:
    return packaged_toml("serving/media_units.toml")


def media_units(gpu: Gpu) -> MediaUnits:
    """The units of a GPU or instance. Raises PodsimError for a GPU of which none are known."""
    tables = _tables()
    name, _, profile = gpu.name.partition("/")
    counts = _sliced_counts(name, profile) or tables["units"].get(name)
    generation = "ga100" if gpu.compute_capability == 8.0 else gpu.architecture
    part = tables["generation"].get(generation)
    if counts is None or part is None:
        raise PodsimError(
            f"{gpu.name}: its video decoders are not known; known are {', '.join(tables['units'])}"
        )
    return MediaUnits(
        decoders=counts[0], encoders=counts[1], jpegs=counts[2], decode=part["decode"], encode=part["encode"],
        jpeg=float(part["jpeg"]), source=tables["sources"][part["source"]], confirmed=part["confirmed"],
    )  # fmt: skip


def _sliced_counts(name: str, profile: str) -> tuple[int, int, int] | None:
    """Decoders, encoders and JPEG engines of a GPU with MIG, or of an instance; None for another GPU."""
    try:
        slicing = slicing_of(load_gpu(name))
    except PodsimError:
        return None
    chosen = find_profile(slicing, profile) if profile else slicing.whole
    return chosen.nvdec, 0, chosen.jpeg


def decoded_streams(gpu: Gpu, video: Video, codec: str) -> float:
    """Streams that the decoders of a GPU carry. Raises PodsimError for a codec that it does not decode."""
    units = media_units(gpu)
    if codec == "jpeg":
        rate, count = units.jpeg, units.jpegs
    elif codec in units.decode:
        rate, count = units.decode[codec], units.decoders
    else:
        raise PodsimError(unknown_name("codec", codec, [*units.decode, "jpeg"]))
    if not count:
        kind = "JPEG engine" if codec == "jpeg" else "video decoder"
        raise PodsimError(f"{gpu.name} has no {kind}; a larger instance, or one with +me, has")
    return count * rate / video.scale / video.rate


def tracker_seconds(name: str, gpu: Gpu) -> float:
    """s of the GPU for each frame of a tracker. Raises PodsimError for an unknown one."""
    trackers = {key: value for key, value in _tables()["trackers"].items() if isinstance(value, float)}
    check_name("tracker", name, trackers)
    reference = load_gpu(_tables()["trackers"]["reference"])
    return float(trackers[name] * reference.peaks["fp32"] / gpu.peaks["fp32"])
