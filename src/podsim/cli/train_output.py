"""`podsim train`: losses of a run, next to those of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.answers.trained import MeasuredTraining
from podsim.answers.trained_precisions import TrainedPrecisions
from podsim.cli.command import print_answer
from podsim.errors import PodsimError
from podsim.lab.options import no_folder
from podsim.lab.record import read_trained
from podsim.options.output_options import TrainOutput
from podsim.report.plot_losses import loss_image
from podsim.report.precision_tables import precisions_report
from podsim.report.training_tables import training_report
from podsim.report.views import image_of
from podsim.timeline.timelines import SUFFIXES, suffix_of, write_timeline
from podsim.timeline.trained_timeline import trained_timeline
from podsim.whole_files import write_whole


def check_train(output: TrainOutput, options: Mapping[str, Any]) -> None:
    """Raise what reading the other runs, or writing the picture, would raise after the training."""
    _others(output)
    for path in output.timeline:
        suffix_of(path, SUFFIXES, "timeline")
    if problems := no_folder(output.plot, "--plot"):
        raise PodsimError(*problems)


def show_trained(
    run: MeasuredTraining | TrainedPrecisions, output: TrainOutput, options: Mapping[str, Any]
) -> None:
    """Print a run and the others, or runs in several precisions, and draw them."""
    others = _others(output)
    kind = "svg" if output.plot is None else output.plot.suffix.lower()[1:]
    if isinstance(run, TrainedPrecisions):
        if output.plot is not None:
            write_whole(output.plot, image_of(run, kind))
        print_answer(run, output, precisions_report, rows=run.rows)
        return
    for path in output.timeline:
        write_timeline(trained_timeline(run), path, title=run.model)
    if output.plot is not None:
        write_whole(output.plot, loss_image([run, *others.values()], kind))
    print_answer(run, output, lambda answer: training_report(answer, others), rows=run.rows)


def _others(output: TrainOutput) -> dict[str, MeasuredTraining]:
    return {path.name: read_trained(path) for path in output.against}
