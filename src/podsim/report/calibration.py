"""What a calibration gave, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from podsim.report.table import Table


class _Drift(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def packaged(self) -> float: ...
    @property
    def fitted(self) -> float: ...
    @property
    def change(self) -> float: ...


class _Calibration(Protocol):
    @property
    def texts(self) -> Mapping[str, str]: ...
    @property
    def skipped(self) -> Mapping[str, str]: ...
    @property
    def drifts(self) -> Sequence[_Drift]: ...
    @property
    def compared(self) -> int: ...
    @property
    def written(self) -> Sequence[str]: ...


def render_calibration(found: _Calibration, *, checked: bool) -> str:
    """Plain text: the files written, or what a check found; what was left out; short texts in full."""
    lines = [f"written: {path}" for path in found.written]
    lines += [f"not fitted: {name}: {why}" for name, why in found.skipped.items()]
    if checked:
        lines.append(f"{len(found.drifts)} of {found.compared} constants differ from the packaged ones.")
    if found.drifts:
        table = Table("lrrr", header=("constant", "packaged", "fitted", "change"))
        for drift in found.drifts:
            table.add(drift.name, f"{drift.packaged:.5g}", f"{drift.fitted:.5g}", f"{drift.change:.1%}")
        lines += [columns for columns, _ in table.lines(140)]
    if len(found.texts) == 1:
        (text,) = found.texts.values()
        lines += ["", text.rstrip()] if text.count("\n") < 40 else []
    return "\n".join(lines) + "\n"
