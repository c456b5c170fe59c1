"""What is trained on: text as bytes, images by folder, or numbers drawn from a seed.

The batch of a step follows from the seed and the step alone, so every layout sees the same, and a run that resumes goes
on where it broke off.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from podsim.errors import LabError
from podsim.lab.image_files import SUFFIXES, is_picture, load_pillow, read_picture

Pair = tuple[NDArray[Any], NDArray[Any]]
_MOST_TEXT = 1 << 30
_MOST_IMAGES = 200_000


class Batches(Protocol):
    """Where the batches of a run come from."""

    classes: int
    """classes of images; 0 for tokens"""

    def batch(self, step: int, count: int) -> Pair:
        """(inputs, targets) of a step, all `count` samples of it."""
        ...


def _draws(seed: int, step: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, step]))


class Synthetic:
    """Tokens of a Markov chain: each is followed by one of four others, the first most often."""

    classes = 0

    def __init__(self, vocabulary: int, length: int, seed: int) -> None:
        """The chain follows from the seed."""
        self.seed, self.length, self.vocabulary = seed, length, vocabulary
        self.next = np.random.default_rng(seed).integers(0, vocabulary, (vocabulary, 4))

    def batch(self, step: int, count: int) -> Pair:
        """See Batches."""
        draws = _draws(self.seed, step)
        tokens = np.empty((count, self.length + 1), np.int64)
        tokens[:, 0] = draws.integers(0, self.vocabulary, count)
        choice = draws.choice(4, (count, self.length), p=[0.7, 0.15, 0.1, 0.05])
        for position in range(self.length):
            tokens[:, position + 1] = self.next[tokens[:, position], choice[:, position]]
        return tokens[:, :-1], tokens[:, 1:]


class Text:
    """Pieces of a file, a byte a token, from places that are drawn."""

    classes = 0

    def __init__(self, path: Path, vocabulary: int, length: int, seed: int) -> None:
        """Raises LabError for a file that is none, too short, or holds bytes beyond the vocabulary."""
        try:
            size = path.stat().st_size
            if size > _MOST_TEXT:
                raise LabError(f"--data {path}: {size:,} B; at most {_MOST_TEXT:,} are read: cut it")
            self.bytes = np.fromfile(path, np.uint8)
        except OSError as problem:
            raise LabError(f"--data {path}: cannot be read: {problem.strerror or problem}") from None
        if len(self.bytes) < length + 2:
            raise LabError(
                f"--data {path}: {len(self.bytes):,} B; a sequence of {length:,} tokens needs {length + 2:,} or more"
            )
        largest = int(self.bytes.max())
        if largest >= vocabulary:
            raise LabError(
                f"--data {path}: it holds byte {largest}, and the network knows {vocabulary} tokens; a byte is a token: "
                "add --set model.vocab=256"
            )
        self.seed, self.length = seed, length

    def batch(self, step: int, count: int) -> Pair:
        """See Batches."""
        starts = _draws(self.seed, step).integers(0, len(self.bytes) - self.length - 1, count)
        pieces = self.bytes[starts[:, None] + np.arange(self.length + 1)].astype(np.int64)
        return pieces[:, :-1], pieces[:, 1:]


class Patterns:
    """Images drawn from a seed: a pattern for each class, under noise."""

    def __init__(self, classes: int, side: int, seed: int) -> None:
        """Patterns are coarse, eight squares a side."""
        self.classes, self.side, self.seed = classes, side, seed
        coarse = np.random.default_rng(seed).normal(size=(classes, 3, 8, 8))
        times = -(-side // 8)
        self.patterns = coarse.repeat(times, 2).repeat(times, 3)[:, :, :side, :side].astype(np.float32)

    def batch(self, step: int, count: int) -> Pair:
        """See Batches."""
        draws = _draws(self.seed, step)
        labels = draws.integers(0, self.classes, count)
        noise = draws.normal(size=(count, 3, self.side, self.side)).astype(np.float32)
        return self.patterns[labels] + noise, labels


class Images:
    """Images of a folder with a folder for each class."""

    def __init__(self, folder: Path, side: int, seed: int) -> None:
        """Raises LabError for a folder without them, or where Pillow is not installed."""
        load_pillow()
        self.side, self.seed = side, seed
        names = sorted(each.name for each in folder.iterdir() if each.is_dir())
        self.files = [
            (path, label)
            for label, name in enumerate(names)
            for path in sorted((folder / name).iterdir())
            if is_picture(path.name)
        ]
        self.classes = len(names)
        if len(names) < 2 or not self.files:
            raise LabError(
                f"--data {folder}: {len(self.files)} images in {len(names)} folders; a folder for each class, two or "
                f"more, with files of {', '.join(SUFFIXES)}"
            )
        if len(self.files) > _MOST_IMAGES:
            raise LabError(f"--data {folder}: {len(self.files):,} images; at most {_MOST_IMAGES:,} are read")

    def batch(self, step: int, count: int) -> Pair:
        """See Batches."""
        chosen = _draws(self.seed, step).integers(0, len(self.files), count)
        pictures = np.stack([self._picture(self.files[k][0]) for k in chosen])
        return pictures, np.array([self.files[k][1] for k in chosen], np.int64)

    def _picture(self, path: Path) -> NDArray[np.float32]:
        """An image, cut to a square and brought to size, values about 0."""
        try:
            values = read_picture(path.read_bytes(), self.side).astype(np.float32)
        except (OSError, ValueError) as problem:
            raise LabError(f"{path}: no image that can be read: {problem}") from None
        return (values / 255.0 - 0.5) / 0.25


def batches_of(
    data: str, *, vocabulary: int, length: int, side: int, classes: int, seed: int, images: bool
) -> Batches:
    """The batches that a run's data mean. Raises LabError for data that cannot be used."""
    if data == "synthetic":
        return Patterns(classes, side, seed) if images else Synthetic(vocabulary, length, seed)
    path = Path(data)
    if images:
        if not path.is_dir():
            raise LabError(f"--data {data[-200:]}: no folder; images lie in a folder for each class")
        return Images(path, side, seed)
    if path.is_dir():
        raise LabError(f"--data {data[-200:]}: a folder; a GPT reads a text file")
    return Text(path, vocabulary, length, seed)
