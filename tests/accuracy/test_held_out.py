"""The packaged times of held-out rows."""

from __future__ import annotations

import csv
import gzip
import io
from importlib.resources import files

from podsim.accuracy.held_out import FILE, held_out_seconds, packed_held_out
from podsim.accuracy.tables import load


def test_packed_times_are_what_was_given_to_five_digits() -> None:
    packed = packed_held_out({"b": 2.0, "a": 1.2345678e-6})
    rows = list(csv.reader(io.StringIO(gzip.decompress(packed).decode("utf-8"))))
    assert rows == [["a", "1.2346e-06"], ["b", "2"]]
    assert packed[4:8] == bytes(4)  # no time: the same bytes on every day


def test_the_packaged_file_is_what_packing_gives() -> None:
    packaged = gzip.decompress(files("podsim.accuracy").joinpath(FILE).read_bytes())
    assert gzip.decompress(packed_held_out(held_out_seconds())) == packaged


def test_held_out_times_are_near_those_measured() -> None:
    measured = {row.id: row.number("latency_ms") for row in load("kernels") if row.text("op") == "gemm"}
    found = {id: seconds for id, seconds in held_out_seconds().items() if measured.get(id)}
    errors = [abs(seconds / (1e-3 * (measured[id] or 1.0)) - 1) for id, seconds in found.items()]
    assert len(errors) > 300
    assert sum(errors) / len(errors) < 0.2
