"""Pictures of files as pixels, by Pillow, which is loaded by name when the first one is read."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.errors import LabError
from podsim.lab.places import first_line
from podsim.packaged import install_hint

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm")


def load_pillow() -> Any:
    """Pillow's module of images; LabError where it is not installed."""
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        raise LabError(f"pictures need Pillow, which is not installed: {install_hint('lab')}") from error


def is_picture(name: str) -> bool:
    """Whether a file's name is one of a picture."""
    return Path(name).suffix.lower() in SUFFIXES


def read_picture(data: bytes, side: int) -> NDArray[np.uint8]:
    """A picture cut to a square in its middle and brought to size: colour, row and column.

    Raises ValueError, with the reason, for bytes that are no picture.
    """
    image = load_pillow()
    try:
        with image.open(io.BytesIO(data)) as picture:
            small = min(picture.size)
            left, top = (picture.width - small) // 2, (picture.height - small) // 2
            square = picture.convert("RGB").crop((left, top, left + small, top + small))
            pixels = np.asarray(square.resize((side, side)), np.uint8)
    except image.UnidentifiedImageError:
        raise ValueError("Pillow does not know its format") from None
    except Exception as problem:
        raise ValueError(first_line(problem)) from None
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
