"""Seconds of calibrate rows by fits to the other folds, as packaged.

The fits take longer than all the rest of `podsim validate`; scripts/record.py repeats them and writes the file.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

FILE = "held_out.csv.gz"


@lru_cache(maxsize=1)
def held_out_seconds() -> Mapping[str, float]:
    """s. The time of each cross-validated row by the fit that left its fold out, by the row's id."""
    packed = files("podsim.accuracy").joinpath(FILE).read_bytes()
    rows = csv.reader(io.StringIO(gzip.decompress(packed).decode("utf-8")))
    return {id: float(seconds) for id, seconds in rows}


def packed_held_out(seconds: Mapping[str, float]) -> bytes:
    """The file of these times."""
    text = "".join(f"{id},{value:.5g}\n" for id, value in sorted(seconds.items()))
    return gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0)
