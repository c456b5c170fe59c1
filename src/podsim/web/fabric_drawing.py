"""The drawing of a server, a pod or a whole machine, as SVG for a page, and how busy a step keeps its links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podsim.options.question import option, overrides_option, question
from podsim.questions.machine.fabric import fabric
from podsim.report.fabric_svg import fabric_svg
from podsim.report.plain_data import plain_value


@dataclass(frozen=True, kw_only=True)
class DrawingOptions:
    """What is drawn."""

    on: str = option("dgx-h100", "A cluster, or a fabric by name, as weka-a100.", argument=True)
    overrides: Any = overrides_option("network.bandwidth=100Gb/s")


@question(DrawingOptions)
def fabric_drawing(options: DrawingOptions) -> dict[str, Any]:
    """The data of `podsim show --fabric --json`, with the drawing as `svg`. Raises PodsimError for an unknown name."""
    drawing = fabric(str(options.on), overrides=options.overrides)
    return {**plain_value(drawing), "svg": fabric_svg(drawing)}
