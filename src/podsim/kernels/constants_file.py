"""KernelConstants as catalog files: a TOML file, and an npz file for each correction."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np

from podsim.kernels.constants import (
    BORROWED,
    LENDER,
    UNITS,
    Evidence,
    FlashConstants,
    GemmConstants,
    KernelConstants,
    MemoryConstants,
    load_constants,
)
from podsim.kernels.gemm_correction import Correction
from podsim.quoting import toml_text, visible
from podsim.whole_files import whole_file, write_files


def write_constants(constants: KernelConstants, folder: Path) -> Path:
    """Path of the written TOML file: the tables that have evidence; corrections go next to it.

    The file serves as `Gpu.kernels` by its path, or by its name once it lies in the catalog folder
    `kernels/`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for precision, correction in constants.corrections.items():
        _write_correction(correction, folder / f"{constants.name}.{precision}.npz")
    path = folder / f"{constants.name}.toml"
    write_files({path: constants_text(constants)})
    return path


def constants_text(constants: KernelConstants) -> str:
    """The TOML text of the tables that have evidence."""
    lines = [
        f"# Kernel constants of {visible(constants.name)}. Meanings: podsim/kernels/constants.py.",
        f"base = {toml_text(constants.base)}" if constants.base else "# no base: every table is given here",
        f"sms = {constants.sms}",
        f"made_by = {toml_text(constants.made_by)}",
    ]
    if constants.extrapolated:
        lines.append("extrapolated = true")
    tables: list[tuple[str, GemmConstants | FlashConstants | MemoryConstants]] = [
        *((f"gemm.{p}", c) for p, c in constants.gemm.items()),
        *((f"flash.{a}", c) for a, c in constants.flash.items()),
        ("memory", constants.memory),
    ]
    for name, table in tables:
        if name in constants.evidence:
            lines += ["", f"[{name}]"]
            for field in fields(table):
                if getattr(table, field.name) == field.default or _is_borrowed(constants, name, field.name):
                    continue  # what only some machines have
                value = float(f"{getattr(table, field.name):.5g}")
                value = value if value > 1e-9 else 0.0
                lines.append(f'{field.name} = {{ value = {value!r}, unit = "{UNITS[field.name]}" }}')
            lines += ["", f"[{name}.evidence]", *_evidence_lines(constants.evidence[name])]
    return "\n".join(lines) + "\n"


def _is_borrowed(constants: KernelConstants, table: str, field: str) -> bool:
    """Whether a table of products has a constant from bf16, or bf16 from another GPU, and not by a fit of its own."""
    if field not in BORROWED:
        return False
    own, key = constants.gemm, table.removeprefix("gemm.")
    if key != "bf16" and "bf16" in own:
        return bool(getattr(own[key], field) == getattr(own["bf16"], field))
    lender = load_constants(LENDER).gemm["bf16"]
    return constants.name != LENDER and bool(getattr(own[key], field) == getattr(lender, field))


def _evidence_lines(evidence: Evidence) -> list[str]:
    return [
        f"rows = {evidence.rows}",
        f"median_error = {evidence.median_error:.4f}",
        f"mean_error = {evidence.mean_error:.4f}",
        f"sources = {toml_text(evidence.sources)}",
        f"note = {toml_text(evidence.note)}",
    ]


def _write_correction(correction: Correction, path: Path) -> None:
    sizes = {name: 2.0 ** getattr(correction, f"log_{name}") for name in ("m", "n", "k")}
    with whole_file(path, is_followed=False) as file:
        np.savez_compressed(
            file,
            logs=np.round(correction.logs * 1e4).astype(np.int16),
            measured=np.packbits(correction.measured),
            **{name: np.round(axis).astype(np.int64) for name, axis in sizes.items()},
        )
