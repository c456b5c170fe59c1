"""`podsim figure`: figures and tables of the DGX A100 white paper, made again."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.served import Figure, FigureList, FigureName
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, question
from podsim.serving.white_paper import figure as made

_FIGURES = (
    ("figure 3", "Number formats: range and precision of TF32", "podsim format tf32"),
    ("figure 4", "BERT-Large training in PyTorch: TF32 on A100 against FP32 on V100", "podsim figure 4"),
    ("figure 5", "The same in TensorFlow", "podsim figure 5"),
    ("figure 7", "BERT-Large inference: MIG slices, V100, T4", "podsim figure 7"),
    ("figure 12", "BERT training in sequences/s; INT8 peak against two CPUs", "podsim figure 12"),
    (
        "table 1",
        "MLPerf Training v0.7: minutes at scale, hours of one GPU",
        "podsim mlperf v0.7 --on selene-2020-06",
    ),
)


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """A figure of the DGX A100 white paper."""

    number: int | None = option(None, "4, 5, 7 or 12; default the list of them.", argument=True)


@question(
    FigureOptions,
    output=PlotOutput,
)
def figure(options: FigureOptions) -> Figure | FigureList:
    """Make one figure of the white paper, or list those that a command makes. Raises CatalogError for another number."""
    if options.number is not None:
        return made(options.number)
    return FigureList(
        rows=tuple(FigureName(name=name, about=about, command=command) for name, about, command in _FIGURES)
    )
