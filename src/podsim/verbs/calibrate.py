"""`podsim calibrate`: the constants of the cost laws from measured kernels, collectives and training runs.

Rows marked `test` are never fitted. The packaged tables give the packaged constants; a user's file (a CSV with the
columns of a reference table, what nccl-tests prints, or a run that the lab kept) gives a catalog entry for their GPU
or fabric, whose rows need no role. No randomness: the same rows give the same files. Needs scipy (pip install
podsim[calibrate]).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from podsim.accuracy import Rows, load
from podsim.accuracy.calibrate_software import fit_software, toml_entry
from podsim.accuracy.registry import software_entry
from podsim.accuracy.tables import training_rows
from podsim.errors import PodsimError, TableError
from podsim.hardware.catalog import load_gpu
from podsim.kernels.constants import KernelConstants, known_kernels, load_constants
from podsim.kernels.constants_file import constants_text, write_constants
from podsim.kernels.fit_kernels import fit_gpu
from podsim.kernels.measured_kernels import kernel_rows, same_gpu
from podsim.network.fit_nccl import fabric_texts, fit_fabrics
from podsim.network.nccl_constants import load_fabric
from podsim.options.accuracy_options import CalibrateOptions
from podsim.options.question import question
from podsim.verbs.measured_rows import read_measured

DEFAULT_SOFTWARE_CONSTANTS = (
    "gemm_speed",
    "memory_speed",
    "attention_speed",
    "collective_speed",
    "host_step",
)
DRIFT = 0.01
"""relative change of a constant from which on a fit repeated is not the packaged one"""


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
    """file name -> TOML text, with residuals and the rows used"""
    skipped: Mapping[str, str]
    """what was not fitted -> why"""
    drifts: tuple[Drift, ...] = ()
    """constants that a fit moves by more than DRIFT"""
    compared: int = 0
    """constants held against the packaged ones"""
    written: tuple[str, ...] = ()


@question(CalibrateOptions)
def calibrate(options: CalibrateOptions) -> Calibration:
    """Constants from files (default: the packaged tables), written to a directory, or held against the packaged ones.

    `gpus` narrows the kernels to some GPUs. `software` fits the named `constants` (a list, or one text with commas) of
    one framework era from training rows instead. Raises TableError for a file or table without a row to fit.
    """
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        raise PodsimError("calibration needs scipy: pip install 'podsim[calibrate]'") from None
    to = _new_folder() if options.to is None and not options.check else options.to
    tables = [read_measured(file) for file in options.files]
    if options.software:
        constants = options.constants
        given = constants.split(",") if isinstance(constants, str) else constants
        names = [name.strip() for name in given if name.strip()]
        found = _software(tables, options.software, names, options.check)
    else:
        known = tables or [load("kernels"), load("collectives")]
        found = _hardware(known, options.gpus, bool(options.files), options.check, to)
    if to is None or options.check:
        return found
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in found.texts.items():
        folder.joinpath(name).write_text(text, "utf-8")
    return Calibration(
        texts=found.texts,
        skipped=found.skipped,
        compared=found.compared,
        written=tuple(str(folder / name) for name in found.texts),
    )


def _new_folder() -> Path:
    """The folder that is written to unless another is named; PodsimError if it is there already."""
    folder = Path("calibrated")
    if folder.exists():
        raise PodsimError(
            "the folder calibrated is there already; --to DIR names another, or says that it may be filled"
        )
    return folder


def _fields(rows: Rows, own: bool) -> list[Mapping[str, str]]:
    """Cells of the rows; a user's rows without a role may be fitted."""
    texts: list[Mapping[str, str]] = [row.fields for row in rows]
    return [{**text, "role": text.get("role") or "calibrate"} for text in texts] if own else texts


def _software(tables: Sequence[Rows], software: str, constants: Sequence[str], check: bool) -> Calibration:
    texts: Sequence[Mapping[str, str]] = training_rows()
    if tables:
        wrong = [table.name for table in tables if table.kind != "llm"]
        if wrong:
            raise TableError(
                f"{', '.join(wrong)}: no training runs; --software needs the columns of llm_training.csv"
            )
        texts = [text for table in tables for text in _fields(table, own=True)]
    entry = software_entry(software)
    fit = fit_software(texts, software, constants or entry.fitted or DEFAULT_SOFTWARE_CONSTANTS)
    drifts = [
        Drift(name=f"{software}.{name}", packaged=float(getattr(entry, name)), fitted=value)
        for name, value in fit.values.items()
    ]
    return Calibration(
        texts={f"{software}.toml": toml_entry(software, fit)},
        skipped={},
        drifts=_moved(drifts) if check else (),
        compared=len(drifts),
    )


def _hardware(
    tables: Sequence[Rows], gpus: Sequence[str], own: bool, check: bool, to: str | Path | None
) -> Calibration:
    texts: dict[str, str] = {}
    skipped: dict[str, str] = {}
    drifts: list[Drift] = []
    for table in tables:
        if table.kind == "kernels":
            _kernels(table, gpus, own, to if not check else None, texts, skipped, drifts)
        elif table.kind == "collectives" and not (gpus and not own):
            _collectives(table, own, texts, skipped, drifts)
        elif table.kind not in ("kernels", "collectives"):
            raise TableError(
                f"{table.name}: rows of kind {table.kind!r} give no constants of kernels or collectives"
            )
    if not texts:
        told = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise TableError(f"no row could be fitted{': ' + told if told else ''}")
    return Calibration(
        texts=texts, skipped=skipped, drifts=_moved(drifts) if check else (), compared=len(drifts)
    )


def _moved(drifts: Sequence[Drift]) -> tuple[Drift, ...]:
    return tuple(drift for drift in drifts if drift.change > DRIFT)


def _kernels(
    table: Rows,
    gpus: Sequence[str],
    own: bool,
    to: str | Path | None,
    texts: dict[str, str],
    skipped: dict[str, str],
    drifts: list[Drift],
) -> None:
    """Fit every GPU of a kernel table (or those named); corrections are written at once, beside the texts."""
    rows = kernel_rows(_fields(table, own), where=table.name)
    measured = sorted(set(rows.gpu.tolist())) if own else list(known_kernels())
    wanted = [same_gpu(name) for name in gpus] or measured
    for name in wanted:
        try:
            gpu = load_gpu(name)
            found = fit_gpu(rows, gpu, made_by=f"podsim calibrate {table.name} --gpu {gpu.name.lower()}")
        except PodsimError as problem:
            skipped[name] = str(problem)
            continue
        texts[f"{found.name}.toml"] = constants_text(found)
        if to is not None:
            write_constants(found, Path(to))
        if found.name in known_kernels():
            drifts += _kernel_drifts(found, load_constants(found.name))


def _kernel_drifts(found: KernelConstants, packaged: KernelConstants) -> list[Drift]:
    drifts = []
    for table in found.evidence:
        kind, _, key = table.partition(".")
        new = found.memory if kind == "memory" else getattr(found, kind)[key]
        old = packaged.memory if kind == "memory" else getattr(packaged, kind)[key]
        for each in fields(new):
            drifts.append(
                Drift(
                    name=f"{found.name} {table} {each.name}",
                    packaged=getattr(old, each.name),
                    fitted=getattr(new, each.name),
                )
            )
    return drifts


def _collectives(
    table: Rows, own: bool, texts: dict[str, str], skipped: dict[str, str], drifts: list[Drift]
) -> None:
    """Fit every architecture of a collectives table; a user's own starts from the packaged constants."""
    fitted = fit_fabrics(_fields(table, own), is_own=own)
    if not fitted.fabrics:
        skipped[table.name] = (
            "no row is of one node of A100, H100, H200, B200, V100 or L40S GPUs from 512 B on"
        )
    texts |= fabric_texts(fitted)
    for name, fabric in fitted.fabrics.items():
        old = load_fabric(name)
        drifts += [
            Drift(name=f"{name} {f.name}", packaged=getattr(old, f.name), fitted=getattr(fabric, f.name))
            for f in fields(fabric)
        ]
