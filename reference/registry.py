"""Every fitted or assumed constant in one list: value, unit, source, evidence.

    kernels.GPU.TABLE.NAME       how kernels approach the peaks (hardware/catalog/kernels)
    engines.LAW.ARCHITECTURE.KERNEL.NAME  how kernels of inference engines run (hardware/catalog/engines)
    fabrics.ARCHITECTURE.NAME    what collectives cost in a node (hardware/catalog/fabrics)
    networks.FABRIC.NAME         and between nodes
    software.SOFTWARE[.GPU].NAME what a framework adds (training/software.toml)
    software.default.NAME        the same where no entry says it
    inference.ENGINE.NAME        what an engine adds to the forward pass of a network (graphs/inference.toml)

reference.sensitivity shows what 5 % of each moves.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from importlib.resources import files
from typing import Any

from podsim.graphs.inference import inference_tables
from podsim.training.software import Software, software_entries

_CATALOG = "podsim.hardware.catalog"
_SECONDS = ("block", "expert", "first", "key", "launch", "rank", "second", "splitting", "third", "token")
"""The first words of constants of engines that are seconds."""
_UNITS = {"B": ("_bytes", "_memory", "_traffic", "memory_floor", "reserved"), "s": ("host_",)}


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One number of a cost law."""

    name: str
    """The path to the constant, with dots."""
    value: float
    unit: str
    source: str
    """The origin of the value."""
    evidence: str
    """The measured rows behind the value, and their residual."""
    rows: int = 0
    """count. The number of these rows; 0 if it is not fitted, or not counted."""
    residual: float | None = None
    """share. The mean absolute relative error of the fit, if it is known."""


def registry() -> tuple[Constant, ...]:
    """All constants, in the order above."""
    return (*_kernels(), *_engines(), *_fabrics(), *_networks(), *_software(), *_inference())


def _toml(folder: str) -> dict[str, Mapping[str, Any]]:
    """File name without its suffix -> contents, of a folder of the catalog."""
    directory = files(_CATALOG).joinpath(folder)
    names = sorted(file.name for file in directory.iterdir() if file.name.endswith(".toml"))
    return {name[:-5]: tomllib.loads(directory.joinpath(name).read_text("utf-8")) for name in names}


def kernel_files() -> dict[str, Mapping[str, Any]]:
    """The files of kernel constants as they stand in the catalog."""
    return _toml("kernels")


def _kernels() -> Iterator[Constant]:
    for gpu, table in kernel_files().items():
        tables = {
            f"{kind}.{key}": part for kind in ("gemm", "flash") for key, part in table.get(kind, {}).items()
        }
        if "memory" in table:
            tables["memory"] = table["memory"]
        for name, part in tables.items():
            evidence = part.get("evidence", {})
            for key, cell in part.items():
                if key != "evidence":
                    yield Constant(
                        name=f"kernels.{gpu}.{name}.{key}",
                        value=float(cell["value"]),
                        unit=cell["unit"],
                        source="; ".join(evidence.get("sources", ())),
                        evidence=evidence.get("note", ""),
                        rows=int(evidence.get("rows", 0)),
                        residual=evidence.get("mean_error"),
                    )


def _engines() -> Iterator[Constant]:
    for law, table in _toml("engines").items():
        for architecture, entries in table["architecture"].items():
            for kernel, entry in entries.items():
                evidence = entry["evidence"]
                for key, value in entry.items():
                    if isinstance(value, float):
                        yield Constant(
                            name=f"engines.{law}.{architecture}.{kernel}.{key}",
                            value=float(value),
                            unit="s" if key.split("_")[0] in _SECONDS else "1",
                            source="; ".join(evidence["sources"]),
                            evidence=table["made_by"],
                            rows=int(evidence["rows"]),
                            residual=float(evidence["mean_error"]),
                        )


def _fabrics() -> Iterator[Constant]:
    for architecture, table in _toml("fabrics").items():
        sweeps = {name: part["sweeps"] for name, part in table.get("evidence", {}).items()}
        errors = [error for cells in table.get("residuals", {}).values() for error in cells.values()]
        for key, cell in table.get("constants", {}).items():
            from_sweeps = sweeps.get(cell.get("evidence", ""), [])
            yield Constant(
                name=f"fabrics.{architecture}.{key}",
                value=float(cell["value"]),
                unit=cell["unit"],
                source=cell["source"],
                evidence=f"{len(from_sweeps)} nccl-tests sweeps" if from_sweeps else "not fitted",
                rows=len(from_sweeps),
                residual=sum(errors) / len(errors) if from_sweeps and errors else None,
            )


def _networks() -> Iterator[Constant]:
    for fabric, part in _toml("fabrics").get("networks", {}).items():
        for key, cell in part.items() if isinstance(part, dict) else ():
            yield Constant(
                name=f"networks.{fabric}.{key}",
                value=float(cell["value"]),
                unit=cell["unit"],
                source=cell["source"],
                evidence="nccl-tests sweeps between nodes"
                if cell["source"].startswith("fit")
                else "not fitted",
            )


def _software() -> Iterator[Constant]:
    raw = software_entries()
    for software, entry in raw.items():
        parts = {"": entry} | {key: value for key, value in entry.items() if isinstance(value, dict)}
        for gpu, part in parts.items():
            for key, value in part.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield Constant(
                        name=".".join(filter(None, ("software", software, gpu, key))),
                        value=float(value),
                        unit=_unit(key),
                        source=entry.get("source") or _inherited(raw, software, "source"),
                        evidence=entry.get("evidence") or _inherited(raw, software, "evidence"),
                    )
    for field in fields(Software):
        if field.default is not MISSING and type(field.default) in (int, float):
            yield Constant(
                name=f"software.default.{field.name}",
                value=float(field.default),
                unit=_unit(field.name),
                source="the default of podsim.training.software.Software",
                evidence="holds where an entry says nothing else",
            )


def _inference() -> Iterator[Constant]:
    units = {"host_kernel": "s", "request": "s", "copy_rate": "B/s"}
    for engine, part in inference_tables().items():
        cells = {
            f"{key}.{name}" if name else key: number
            for key, value in part.items()
            for name, number in (value.items() if isinstance(value, Mapping) else [("", value)])
        }
        for key, value in cells.items():
            if isinstance(value, int | float):
                yield Constant(
                    name=f"inference.{engine}.{key}",
                    value=float(value),
                    unit=units.get(key, "1"),
                    source="NVIDIA DeepLearningExamples and demoBERT",
                    evidence=part.get("evidence", "all rows of inference with role calibrate"),
                )


def _inherited(raw: Mapping[str, Any], software: str, key: str) -> str:
    """A text of the entry that some software inherits, or of the next above it."""
    while software:
        if raw[software].get(key):
            return str(raw[software][key])
        software = raw[software].get("inherits", "")
    return ""


def _unit(key: str) -> str:
    """SI unit of a constant of the software catalog."""
    for unit, marks in _UNITS.items():
        if any(key.startswith(mark) or key.endswith(mark) for mark in marks):
            return unit
    return "1"
