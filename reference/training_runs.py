"""How rows of the tables of vision, language, speech and recommendation training, and of MLPerf, become runs.

Entries of the TOML files in `runs/` are tried in file order; the first that fits a row says what it is:

    [[run]]
    table = "vision"                         # vision or mlperf
    model = ["Detection/SSD"]                # the column model (benchmark in mlperf) is one of these
    framework = "PyTorch"                    # the column framework is this, or in mlperf begins with it; left out: any
    where = { notes = "Base model" }         # regular expressions searched in other columns
    network = "ssd300-resnet50"              # of podsim.graphs.networks
    items = 1.0                              # what the row's unit counts in one sample: tokens of a sequence, else 1
    batch_is = "micro"                       # the meaning of the row's batch:
                                             #   micro   samples a GPU computes at once (the default)
                                             #   step    samples a GPU computes in a step, over its accumulation
                                             #   tokens  as micro, in tokens: `length` of them are a sample
                                             #   given   the row's cell is not understood; `batch` replaces it
    length = 64.0                            # tokens of a sample, for batch_is = "tokens"
    batch = { fp16 = 256, fp32 = 128 }       # where the row states none; by precision, or one number
    accumulate = 1                           # micro-batches of a step, unless the row says (accum=N in notes, grad_accum)
    fuse = "none"                            # as podsim graph --fuse
    channels_first = ["tf32", "fp32"]        # precisions in which tensors are laid out NCHW
    optimizer = "sgd"                        # as podsim graph --optimizer
    software = "dle-pytorch"                 # entry of the software catalog
    source = "…"                             # where what the row does not state comes from
    skip = "…"                               # instead of all from `network` on: why the rows cannot be expressed

What a row does not state is, where `source` names a README or a script of the project, common knowledge of it: the
files were not at hand when the entries were written. Nothing was chosen by the errors of rows marked `test`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path

BATCHES = ("micro", "step", "tokens", "given")
_MODEL = {"vision": "model", "mlperf": "benchmark"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """How rows like these were trained; see the module's text."""

    table: str
    model: tuple[str, ...]
    framework: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    """column -> regular expression"""
    network: str = ""
    items: float = 1.0
    """what the row's unit counts in one sample"""
    batch_is: str = "micro"
    length: float = 1.0
    """tokens of a sample"""
    batch: float | Mapping[str, float] | None = None
    """samples of a micro-batch on a GPU, where the row states none"""
    accumulate: int = 1
    """micro-batches of a step, where the row states none"""
    fuse: str = "none"
    channels_first: tuple[str, ...] = ()
    """precisions in which tensors are laid out NCHW"""
    optimizer: str = "sgd"
    software: str = ""
    source: str = ""
    """where what the row does not state comes from"""
    skip: str = ""
    """why such rows cannot be expressed"""

    def fits(self, row: Mapping[str, str]) -> bool:
        """Whether the row is one of these."""
        framework = row.get("framework", "")
        same = (
            framework.lower().startswith(self.framework.lower())
            if self.table == "mlperf"
            else framework == self.framework
        )
        return (
            row.get(_MODEL[self.table], "") in self.model
            and (not self.framework or same)
            and all(re.search(pattern, row.get(column, "")) for column, pattern in self.where.items())
        )


@cache
def runs() -> tuple[Run, ...]:
    """Every entry, in the order in which they are tried."""
    known = {one.name for one in fields(Run)}
    found = []
    for file in sorted((Path(__file__).parent / "runs").glob("*.toml")):
        for entry in tomllib.loads(file.read_text("utf-8")).get("run", []):
            wrong = entry.keys() - known
            assert not wrong, f"{file.name}: {entry.get('model')}: unknown keys {sorted(wrong)}"
            one = Run(**{**entry, **{key: tuple(entry.get(key, ())) for key in ("model", "channels_first")}})
            said = f"{file.name}: {one.model}"
            assert one.table in _MODEL, f"{said}: table={one.table!r}"
            assert one.batch_is in BATCHES, f"{said}: batch_is={one.batch_is!r}"
            assert bool(one.skip) != bool(one.network and one.software), f"{said}: skip, or what it is"
            found.append(one)
    return tuple(found)


def find_run(table: str, row: Mapping[str, str]) -> Run | None:
    """The entry of a row; None if there is none."""
    return next((one for one in runs() if one.table == table and one.fits(row)), None)
