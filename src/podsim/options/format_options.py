"""Options of number formats."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.options.question import option


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """A number format, and numbers that it rounds."""

    name: str = option(
        "", "A number format: tf32, bf16, e4m3, mxfp4; without one all are listed.", argument=True
    )
    numbers: str = option("", "Numbers whose nearest codes are shown: 0.3, or 0.3,1e-9,-5.", argument=True)
    on: str = option("", "A GPU or system, h100: only what it runs, and at what speed.")
