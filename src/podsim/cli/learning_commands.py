"""The commands about what a network learns: losses, minutes to a target, number formats, sparsity."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from podsim.cli.command import Row

_SEARCHING = "searching plans"

LEARNING: Mapping[str, Row] = MappingProxyType({
    "figure": Row(
        help="Make figures and tables of the DGX A100 white paper again.",
        options="mlperf_options:FigureOptions",
        verb="figure",
        output="output_options:PlotOutput",
        picture="report.views:image_of",
        report="report.serving:figures_report",
        rows="rows",
    ),
    "mlperf": Row(
        help="Predict minutes to the targets of MLPerf Training.",
        options="mlperf_options:MlperfOptions",
        verb="mlperf",
        output="output_options:PlotOutput",
        picture="report.views:image_of",
        report="report.minutes_tables:minutes_report",
        rows="rows",
    ),
    "format": Row(
        help="Show number formats: range, codes, speed, accuracy.",
        options="format_options:FormatOptions",
        verb="format",
        output="output_options:PlotOutput",
        report="report.format_tables:format_report",
        rows="report.format_tables:format_rows",
        picture="report.plot_formats:format_image",
    ),
    "prune": Row(
        help="Prune weights 2:4: kept magnitude, compressed size.",
        options="prune_options:PruneOptions",
        verb="prune",
        output="output_options:PlotOutput",
        report="report.prune_tables:prune_report",
        rows="tensors",
        picture="report.plot_prune:prune_image",
    ),
    "scale batch": Row(
        help="Find the critical batch: what larger batches cost in steps and samples.",
        options="batch_options:BatchOptions",
        verb="scale_batch",
        output="output_options:PlotOutput",
        report="report.batch_tables:batch_report",
        rows="rows",
        picture="report.plot_batches:batch_image",
    ),
    "scale fit": Row(
        help="Fit a law of the loss to finished runs: parameters, tokens, loss.",
        options="scale_options:ScaleFitOptions",
        verb="scale_fit",
        activity="fitting the law",
        output="scale_options:ScaleOutput",
        report="report.scale_tables:fit_report",
        rows="rows",
        data="report.scale_tables:fit_data",
        picture="report.plot_scaling:scale_image",
    ),
    "scale loss": Row(
        help="Predict the loss of a model after some tokens.",
        options="scale_options:ScaleLossOptions",
        verb="scale_loss",
        output="scale_options:ScaleOutput",
        report="report.scale_tables:loss_report",
        rows="report.scale_tables:loss_rows",
        data="report.scale_tables:fit_data",
        picture="report.plot_scaling:scale_image",
    ),
    "scale best": Row(
        help="Find the network that learns most on a machine in some days. Exit status 1: none fits.",
        options="scale_options:ScaleBestOptions",
        verb="scale_best",
        output="scale_options:ScaleOutput",
        report="report.scale_tables:best_report",
        rows="front",
        data="report.scale_tables:fit_data",
        picture="report.plot_scaling:scale_image",
        progress=_SEARCHING,
    ),
    "scale ladder": Row(
        help="Train tiny GPTs of several sizes for real, and foretell the largest from the others.",
        options="scale_options:ScaleLadderOptions",
        verb="scale_ladder",
        output="scale_options:ScaleOutput",
        report="report.scale_tables:ladder_report",
        rows="rows",
        data="report.scale_tables:fit_data",
        picture="report.plot_scaling:scale_image",
        progress="training",
    ),
    "scale laws": Row(
        help="Compare named scaling laws: where they disagree, and by how much.",
        options="scale_options:ScaleLawsOptions",
        verb="scale_laws",
        output="scale_options:ScaleOutput",
        report="report.scale_tables:laws_report",
        rows="rows",
        picture="report.plot_scaling:scale_image",
    ),
    "train": Row(
        help="Train a small network for real under a plan. Exit status 1: it diverged.",
        options="measure_options:TrainOptions",
        verb="questions.learn.train_precisions:train_all",
        output="output_options:TrainOutput",
        check="cli.train_output:check_train",
        show="cli.train_output:show_trained",
        progress="training",
        ranked=True,
        status=lambda run: int(getattr(run, "diverged", None) is not None),
    ),
})  # fmt: skip
"""by name; of two words, the first is the group"""
