"""Recipes: how projects trained networks, which their published rows leave unsaid.

Entries of the TOML files are tried in file order; the first that fits a row says how its network was trained:

    [[recipe]]
    table = "vision"                         # vision or mlperf
    model = ["Detection/SSD"]                # the column model (benchmark in mlperf) is one of these
    framework = "PyTorch"                    # the column framework is this; left out: any
    where = { notes = "Base model" }         # regular expressions searched in other columns
    network = "ssd300-resnet50"              # of podsim.graphs.networks
    counts = "tokens"                        # what the rows' unit counts: tokens, frames; left out: samples
    items = 32.0                             # how many of them are in one sample
    batch_is = "micro"                       # the meaning of the row's batch:
                                             #   micro   samples a GPU computes at once (the default)
                                             #   step    samples a GPU computes in a step, over its accumulation
                                             #   tokens  as micro, in tokens: `length` of them are a sample
                                             #   total   samples of all GPUs in a step
    length = 64.0                            # tokens of a sample, for batch_is = "tokens"
    batch = { fp16 = 256, fp32 = 128 }       # where the row states none; by precision, or one number
    accumulate = 1                           # micro-batches of a step, unless the row says (accum=N in notes, grad_accum)
    fuse = "none"                            # as podsim graph --fuse
    channels_first = ["tf32", "fp32"]        # precisions in which tensors are laid out NCHW
    optimizer = "sgd"                        # as podsim graph --optimizer
    software = "dle-pytorch"                 # entry of the software catalog
    precision = "fp8"                        # of rows that state none
    gpu = "A100-80GB"                        # of rows that state none
    source = "…"                             # where what the row does not state comes from
    skip = "…"                               # instead of all from `network` on: why the rows cannot be expressed

What a row does not state is, where `source` names a README or a script of the project, common knowledge of it: the
files were not at hand when the entries were written. Nothing was chosen by the errors of rows marked `test`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

BATCHES = ("micro", "step", "tokens", "total")
MODEL_COLUMNS = {"vision": "model", "mlperf": "benchmark"}
"""The column of each table that names the network."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How rows of one kind were trained; see the module's text."""

    table: str
    model: tuple[str, ...] = ()
    framework: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    """The regular expression that each column must contain."""
    network: str = ""
    counts: str = "samples"
    """The things that the rows' unit counts: samples, tokens or frames."""
    items: float = 1.0
    """count. The number of them in one sample."""
    batch_is: str = "micro"
    length: float = 1.0
    """count. The tokens of a sample."""
    batch: float | Mapping[str, float] | None = None
    """count. The samples of a micro-batch on a GPU, where the row states none; by precision, or for all."""
    total: float = 0.0
    """count. The samples of all GPUs in a step, where the row states no batch; 0 uses `batch`."""
    accumulate: int = 1
    """count. The micro-batches of a step, where the row states none."""
    fuse: str = "none"
    channels_first: tuple[str, ...] = ()
    """The precisions in which tensors are laid out NCHW."""
    optimizer: str = "sgd"
    software: str = ""
    precision: str = ""
    """The precision of rows that state none."""
    gpu: str = ""
    """The GPU of rows that state none."""
    source: str = ""
    """The source of what the row does not state."""
    skip: str = ""
    """The reason why such rows cannot be expressed."""

    def fits(self, row: Mapping[str, str]) -> bool:
        """Whether the row is of this kind."""
        framework = row.get("framework", "").lower()
        return (
            row.get(MODEL_COLUMNS[self.table], "") in self.model
            and (not self.framework or framework == self.framework.lower())
            and _has_all(self.where, row)
        )


@dataclass(frozen=True, kw_only=True)
class Names:
    """How rows name networks and frameworks where no recipe fits, in the order in which they are tried."""

    networks: tuple[Mapping[str, Any], ...]
    """The keys of a recipe, with `words`: a regular expression for the network's name in small letters and digits."""
    frameworks: tuple[Mapping[str, Any], ...]
    """The keys of a recipe, with `words`: a regular expression for the framework's name."""


def _has_all(where: Mapping[str, str], row: Mapping[str, str]) -> bool:
    return all(re.search(pattern, row.get(column, "")) for column, pattern in where.items())


def _entries(folder: Traversable, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """(file, entry) of each entry of a kind in the TOML files of a folder, in file order."""
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".toml"))
    return [
        (name, entry)
        for name in names
        for entry in tomllib.loads(folder.joinpath(name).read_text("utf-8")).get(kind, [])
    ]


@cache
def recipes() -> tuple[Recipe, ...]:
    """Every packaged recipe, in the order in which they are tried."""
    return read_recipes(files(__name__))


def read_recipes(folder: Traversable) -> tuple[Recipe, ...]:
    """The recipes of a folder's TOML files; an assert fails for an entry with a wrong key."""
    known = {entry.name for entry in fields(Recipe)}
    made = []
    for file, entry in _entries(folder, "recipe"):
        wrong = entry.keys() - known
        assert not wrong, f"{file}: {entry.get('model')}: unknown keys {sorted(wrong)}"
        recipe = _make_recipe(entry)
        assert recipe.table in MODEL_COLUMNS, f"{file}: {recipe.model}: table={recipe.table!r}"
        assert recipe.batch_is in BATCHES, f"{file}: {recipe.model}: batch_is={recipe.batch_is!r}"
        complete = bool(recipe.network and recipe.software)
        assert bool(recipe.skip) != complete, f"{file}: {recipe.model}: skip, or a network and software"
        made.append(recipe)
    return tuple(made)


def _make_recipe(entry: Mapping[str, Any]) -> Recipe:
    return Recipe(**{**entry, **{key: tuple(entry.get(key, ())) for key in ("model", "channels_first")}})


@cache
def names() -> Names:
    """The entries of networks and frameworks."""
    networks, frameworks = (
        tuple(entry for _, entry in _entries(files(__name__), kind)) for kind in ("network", "framework")
    )
    return Names(networks=networks, frameworks=frameworks)


def find_recipe(table: str, row: Mapping[str, str], more: Sequence[Recipe] = ()) -> Recipe | None:
    """The recipe of a row: the first that fits, else one of the names of its network and framework; None without.

    `more` are tried before the packaged ones.
    """
    known = (*more, *recipes())
    exact = next((recipe for recipe in known if recipe.table == table and recipe.fits(row)), None)
    return exact or _recipe_of_names(table, row)


def _recipe_of_names(table: str, row: Mapping[str, str]) -> Recipe | None:
    model, framework = row.get(MODEL_COLUMNS[table], ""), row.get("framework", "")
    network = _first_entry(names().networks, re.sub(r"[^a-z0-9]", "", model.lower()), table, row)
    software = _first_entry(names().frameworks, framework.lower(), table, row)
    if network is None or software is None:
        return None
    if "skip" in network or "skip" in software:
        return Recipe(table=table, skip=network.get("skip") or software["skip"])
    recipe = _make_recipe({**software, **network, "table": table})
    if network.get("fuse") and software.get("fuse", "none") == "none":
        return replace(recipe, fuse="none")
    return recipe


def _first_entry(
    entries: tuple[Mapping[str, Any], ...], text: str, table: str, row: Mapping[str, str]
) -> dict[str, Any] | None:
    """The first entry whose words and conditions a row meets, without them."""
    for entry in entries:
        meets = entry.get("table", table) == table and re.search(entry["words"], text)
        if meets and _has_all(entry.get("where", {}), row):
            return {key: value for key, value in entry.items() if key not in ("words", "where", "table")}
    return None
