"""All rows of the collected tables of kernels of engines, which the package ships as a sample.

They stand in reference/raw/kernels of a checkout, one file a GPU, kind and engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from podsim.accuracy.reading import read_rows
from podsim.accuracy.tables import Rows
from podsim.errors import TableError

ALL = "kernels-all"
"""The name of these tables together, beside those of podsim.accuracy.tables."""
_PATTERN = "*.csv.gz"


def read_raw_kernels(directory: Path | None = None) -> Iterator[Rows]:
    """The rows of each raw table in a directory (default: that of the checkout), one table at a time.

    Raises TableError if there is none.
    """
    folder = directory or Path(__file__).parents[3] / "reference" / "raw" / "kernels"
    paths = sorted(folder.glob(_PATTERN)) if folder.is_dir() else []
    if not paths:
        raise TableError(
            f"{ALL}: {str(folder)[-120:]} holds no {_PATTERN}; the package ships a sample of these tables only. "
            "Run it in a checkout of podsim, or name the folder of the raw tables with --raw"
        )
    for path in paths:
        rows = read_rows(path)[1]
        yield replace(rows, name=path.name.removesuffix(".csv.gz"))
