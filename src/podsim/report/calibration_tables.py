"""The result of a calibration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Rows, raw

_LONGEST = 40
"""The most lines of a file that is shown in full."""
_DRIFTS = Table(
    Column("constant", "name"),
    Column("packaged", "", ":.5g"),
    Column("fitted", "", ":.5g"),
    Column("change", "", ":.1%"),
)


_LEFT_OUT = Table(
    Column("left out", "group", wrap=True),
    Column("rows", "rows"),
    Column("error, fitted", "seen", ":.1%"),
    Column("error, left out", "unseen", lambda share: "no other rows" if share is None else f"{share:.1%}"),
    Column("constants without it", "values", lambda own: " ".join(f"{k}={v:.4g}" for k, v in own.items())),
)


def calibration_report(calibration: Any, *, is_check: bool) -> Iterator[Block]:
    """The written files or the result of a check, the omissions, and short texts in full."""
    yield from (raw(f"written: {path}") for path in calibration.written)
    yield from (raw(f"not fitted: {name}: {why}") for name, why in calibration.skipped.items())
    if is_check:
        yield f"{len(calibration.drifts)} of {calibration.compared} constants differ from the packaged ones."
    if calibration.drifts:
        yield Rows(_DRIFTS, calibration.drifts)
    if len(calibration.texts) == 1:
        (text,) = calibration.texts.values()
        yield from ("", raw(text.rstrip())) if text.count("\n") < _LONGEST else ()
    yield from (raw(f"not physical: {name} = {why}") for name, why in calibration.beyond.items())
    if calibration.left_out:
        yield from ("", Rows(_LEFT_OUT, calibration.left_out))
