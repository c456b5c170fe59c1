"""`podsim calibrate`: the constants of the cost laws from measured kernels, collectives and training runs.

A user's file is a CSV with the columns of a reference table, what nccl-tests prints, or a run that the lab kept. The
same rows give the same files. Needs scipy (pip install podsim[calibrate]).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podsim.accuracy.calibration import DRIFT, Calibration, calibrate_software, calibrate_tables
from podsim.accuracy.left_out_constants import GROUPS
from podsim.accuracy.measured_rows import read_measured
from podsim.accuracy.tables import load
from podsim.answers.answer import call
from podsim.errors import PodsimError, unknown_name
from podsim.fitting import load_optimizer
from podsim.options.output_options import JsonOutput
from podsim.options.question import option, question
from podsim.whole_files import write_files


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """Which constants are fitted, and to what."""

    files: Sequence[Path] = option(
        (),
        "CSV files with the columns of a reference table, logs of nccl-tests, runs of the lab.",
        argument=True,
    )
    gpus: Sequence[str] = option((), "Only the kernels of this GPU; repeatable.", flag="--gpu")
    software: str = option("", "Fit this software instead: NAME or NAME.GPU.")
    constants: str = option("", "With --software: which constants, comma-separated.")
    leave_out: str = option(
        "", "With --software: fit without each, and give its error.", choices=("", *GROUPS),
    )  # fmt: skip
    to: Path | None = option(None, "Directory to write to; default a new one, calibrated.")
    check: bool = option(False, "Fit again and compare with the packaged constants.", flag="--check")


def _text(answer: Calibration, output: JsonOutput, options: Mapping[str, Any]) -> str:
    """Constants that were fitted, or how they differ from the packaged ones, in lines of 140 columns."""
    report = call("report.calibration_tables:calibration_report", answer, is_check=options["check"])
    return str(call("report.screen:report_text", report, 140))


@question(
    CalibrateOptions,
    output=JsonOutput,
    text=_text,
    status=lambda calibration: int(bool(calibration.drifts)),
)
def calibrate(options: CalibrateOptions) -> Calibration:
    """Constants from files (default: the packaged tables), written to a directory, or compared with the packaged ones.

    `gpus` narrows the kernels to some GPUs. `software` fits the named `constants` (a list, or one text with commas) of
    one software from training rows instead. Raises TableError for a file or table without a row to fit.
    """
    load_optimizer()
    if options.leave_out not in ("", *GROUPS):
        raise PodsimError(unknown_name("group to leave out", options.leave_out, GROUPS))
    if options.leave_out and not options.software:
        raise PodsimError(
            "leave_out is for the constants of a software entry: --software NAME --leave-out source"
        )
    folder = None if options.check else Path(options.to) if options.to is not None else _new_folder()
    tables = [read_measured(file) for file in options.files]
    if options.software:
        given = options.constants.split(",") if isinstance(options.constants, str) else options.constants
        names = [name.strip() for name in given if name.strip()]
        fitted = calibrate_software(tables, options.software, names, options.leave_out)
    else:
        known = tables or [load("kernels"), load("engines"), load("collectives")]
        fitted = calibrate_tables(known, options.gpus, folder, is_own=bool(options.files))
    if folder is None:
        return replace(fitted, drifts=tuple(drift for drift in fitted.drifts if drift.change > DRIFT))
    folder.mkdir(parents=True, exist_ok=True)
    write_files({folder / name: text for name, text in fitted.texts.items()})
    return replace(fitted, drifts=(), written=tuple(str(folder / name) for name in fitted.texts))


def _new_folder() -> Path:
    """The folder that is written to unless another is named; PodsimError if it is there already."""
    folder = Path("calibrated")
    if folder.exists():
        raise PodsimError(
            "the folder calibrated is there already; --to DIR names another, or says that it may be filled"
        )
    return folder
