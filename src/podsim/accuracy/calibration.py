"""Constants fitted to measured kernels, collectives and training runs, side by side with the packaged ones.

Rows marked `test` are never fitted. The packaged tables give the packaged constants. A user's rows need no role; they
give a catalog entry for their GPU or fabric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from podsim.accuracy.calibrate_software import fit_software, toml_entry
from podsim.accuracy.left_out_constants import LeftOutGroup, beyond_range, leave_out
from podsim.accuracy.price_collectives import network_sweeps
from podsim.accuracy.price_engines import engine_product
from podsim.accuracy.tables import Rows, training_rows
from podsim.errors import CatalogError, PodsimError, TableError, check_name
from podsim.hardware.catalog import load_gpu, load_system
from podsim.kernels.constants import (
    FlashConstants,
    GemmConstants,
    KernelConstants,
    MemoryConstants,
    known_kernels,
    load_constants,
)
from podsim.kernels.constants_file import constants_text, write_constants
from podsim.kernels.fit_kernels import fit_gpu
from podsim.kernels.measured_kernels import KernelRows, kernel_rows, same_gpu
from podsim.network.fit_nccl import fabric_texts, fit_fabrics
from podsim.network.fit_networks import FittedNetworks, fit_networks, network_text, network_values
from podsim.network.nccl_constants import Fabric, load_fabric, load_network
from podsim.training.software import Software, read_catalog, software_entries

DEFAULT_SOFTWARE_CONSTANTS = (
    "gemm_speed",
    "memory_speed",
    "attention_speed",
    "collective_speed",
    "host_step",
)
DRIFT = 0.01
"""Relative change from which on a constant of a repeated fit differs from the packaged one."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A packaged constant and what a fit gives now."""

    name: str
    packaged: float
    fitted: float

    @property
    def change(self) -> float:
        """Relative change, from the packaged value; files keep what is below 1e-9 as 0."""
        most = max(abs(self.packaged), abs(self.fitted))
        return abs(self.fitted - self.packaged) / most if most > 1e-9 else 0.0


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What was fitted."""

    texts: Mapping[str, str]
    """The TOML text of each file, with residuals and the rows used."""
    skipped: Mapping[str, str]
    """The reasons for what was not fitted."""
    drifts: tuple[Drift, ...] = ()
    """The constants next to the packaged ones; for a check, those that a fit moves by more than DRIFT."""
    compared: int = 0
    """The number of constants compared with the packaged ones."""
    beyond: Mapping[str, str] = field(default_factory=dict)
    """The fitted constants of software outside their physical range, with that range and its reason."""
    left_out: tuple[LeftOutGroup, ...] = ()
    """The fits of software without each source, model or GPU, and their errors on what was left out."""
    written: tuple[str, ...] = ()


def calibrate_tables(
    tables: Sequence[Rows], gpus: Sequence[str], folder: Path | None, *, is_own: bool
) -> Calibration:
    """Constants of kernels and collectives from tables; TableError for one of another kind, or without a row to fit.

    `gpus` narrows the kernels to some GPUs, `folder` takes the corrections of kernels. `is_own`: rows of a user.
    """
    texts: dict[str, str] = {}
    skipped: dict[str, str] = {}
    drifts: list[Drift] = []
    kernels = [table for table in tables if table.kind in _KERNELS]
    for table in tables:
        if table.kind in _KERNELS:
            part = (
                _of_kernels(kernels, gpus, folder, is_own)
                if table is kernels[0]
                else Calibration(texts={}, skipped={})
            )
        elif table.kind == "collectives":
            part = _of_collectives(table, is_own) if is_own or not gpus else Calibration(texts={}, skipped={})
        else:
            raise TableError(
                f"{table.name}: rows of kind {table.kind!r} give no constants of kernels or collectives"
            )
        texts, skipped, drifts = {**texts, **part.texts}, {**skipped, **part.skipped}, [*drifts, *part.drifts]
    if not texts:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        raise TableError(f"no row could be fitted{': ' + reasons if reasons else ''}")
    return Calibration(texts=texts, skipped=skipped, drifts=tuple(drifts), compared=len(drifts))


def calibrate_software(
    tables: Sequence[Rows], software: str, constants: Sequence[str], left: str = ""
) -> Calibration:
    """Constants of an entry of the catalog from training runs: the packaged ones, or those of tables of a user.

    `left`: source, model or gpu, of which each is left out in turn; "" for none.
    """
    texts: Sequence[Mapping[str, str]] = training_rows()
    if tables:
        wrong = [table.name for table in tables if table.kind != "llm"]
        if wrong:
            raise TableError(
                f"{', '.join(wrong)}: no training runs; --software needs the columns of llm_training.csv"
            )
        texts = [text for table in tables for text in _fields(table, is_own=True)]
    entry = software_entry(software)
    names = constants or entry.fitted or DEFAULT_SOFTWARE_CONSTANTS
    fit = fit_software(texts, software, names)
    drifts = tuple(
        Drift(name=f"{software}.{name}", packaged=_packaged(entry, name), fitted=value)
        for name, value in fit.values.items()
    )
    entries = {f"{software}.toml": toml_entry(software, fit)}
    return Calibration(
        texts=entries, skipped={}, drifts=drifts, compared=len(drifts), beyond=beyond_range(fit.values),
        left_out=leave_out(texts, software, names, left) if left else (),
    )  # fmt: skip


def software_entry(name: str) -> Software:
    """The packaged entry "NAME" or "NAME.GPU"; CatalogError for another name."""
    software, _, gpu = name.partition(".")
    catalog = read_catalog(software_entries())
    check_name("software", software, catalog, CatalogError)
    return catalog[software].get(gpu) or catalog[software][""]


def _packaged(entry: Software, name: str) -> float:
    """The packaged value of a constant of a software entry, or of a system: "SYSTEM.NAME"."""
    system, _, own = name.rpartition(".")
    return float(getattr(load_system(system) if system else entry, own))


def _fields(rows: Rows, *, is_own: bool) -> list[Mapping[str, str]]:
    """Cells of the rows; a user's rows without a role may be fitted."""
    texts: list[Mapping[str, str]] = [row.fields for row in rows]
    return [{**text, "role": text.get("role") or "calibrate"} for text in texts] if is_own else texts


_KERNELS = ("kernels", "engines")
"""Kinds of tables whose rows give constants of kernels."""


def _of_kernels(
    tables: Sequence[Rows], gpus: Sequence[str], folder: Path | None, is_own: bool
) -> Calibration:
    """Constants of every GPU of tables of kernels, or of those named; corrections are written at once."""
    rows = _kernel_rows(tables, is_own)
    measured = sorted(set(rows.gpu.tolist())) if is_own else list(known_kernels())
    files = "".join(f"{table.name} " for table in tables) if is_own else ""
    texts: dict[str, str] = {}
    skipped: dict[str, str] = {}
    drifts: list[Drift] = []
    for name in [same_gpu(name) for name in gpus] or measured:
        try:
            gpu = load_gpu(name)
            fitted = fit_gpu(rows, gpu, made_by=f"podsim calibrate {files}--gpu {gpu.name.lower()}")
        except PodsimError as problem:
            skipped[name] = str(problem)
            continue
        texts[f"{fitted.name}.toml"] = constants_text(fitted)
        if folder is not None:
            write_constants(fitted, folder)
        if fitted.name in known_kernels():
            packaged = load_constants(fitted.name)
            for key in fitted.evidence:
                drifts += _drifts(f"{fitted.name} {key}", _part(packaged, key), _part(fitted, key))
    return Calibration(texts=texts, skipped=skipped, drifts=tuple(drifts))


def _kernel_fields(tables: Sequence[Rows], kind: str, is_own: bool) -> list[Mapping[str, str]]:
    """Cells of the rows of a kind in the columns of kernel_rows; of an engine's kernels, the products."""
    fields = [row for table in tables if table.kind == kind for row in _fields(table, is_own=is_own)]
    if kind == "engines":
        return [engine_product(row) for row in fields if row["op_name"] == "gemm"]
    return fields


def _kernel_rows(tables: Sequence[Rows], is_own: bool) -> KernelRows:
    """The rows of tables of kernels, without an engine's products that the other tables hold as well."""
    known, engine = (_kernel_fields(tables, kind, is_own) for kind in _KERNELS)
    rows = kernel_rows([*known, *engine], where=" and ".join(table.name for table in tables))
    columns = (rows.gpu, rows.op, rows.precision, rows.m, rows.n, rows.k)
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    first = len(kernel_rows(known)) if known else 0
    held = set(keys[:first])
    kept = [at for at, key in enumerate(keys) if at < first or key not in held]
    return rows.take(np.array(kept, dtype=np.intp))


def _part(constants: KernelConstants, key: str) -> GemmConstants | FlashConstants | MemoryConstants:
    """The constants of a key such as "gemm.bf16"."""
    kind, _, name = key.partition(".")
    if kind == "memory":
        return constants.memory
    return constants.gemm[name] if kind == "gemm" else constants.flash[name]


def _of_collectives(table: Rows, is_own: bool) -> Calibration:
    """Constants of every architecture of a collectives table."""
    fitted = fit_fabrics(_fields(table, is_own=is_own), is_own=is_own)
    if not fitted.fabrics:
        reason = "no row is of one node of A100, H100, H200, B200, V100 or L40S GPUs from 512 B on"
        return Calibration(texts={}, skipped={table.name: reason})
    drifts = [d for name, fabric in fitted.fabrics.items() for d in _drifts(name, load_fabric(name), fabric)]
    texts = fabric_texts(fitted)
    if not is_own and (sweeps := network_sweeps(table)):
        networks = fit_networks(sweeps)
        texts["networks.toml"] = network_text(networks, sweeps)
        drifts += _network_drifts(networks)
    return Calibration(texts=texts, skipped={}, drifts=tuple(drifts))


def _network_drifts(fitted: FittedNetworks) -> list[Drift]:
    """The constants between nodes against the packaged ones."""
    known = FittedNetworks(networks={name: load_network(name) for name in fitted.networks})
    packaged = network_values(known)
    return [
        Drift(name=f"networks {name}", packaged=packaged[name], fitted=value)
        for name, value in network_values(fitted).items()
    ]


_Constants = GemmConstants | FlashConstants | MemoryConstants | Fabric


def _drifts(name: str, packaged: _Constants, fitted: _Constants) -> list[Drift]:
    return [
        Drift(name=f"{name} {f.name}", packaged=getattr(packaged, f.name), fitted=getattr(fitted, f.name))
        for f in fields(fitted)
    ]
