"""The fewest GPUs that train a model in some days."""

from __future__ import annotations

from podsim.answers.study import NO_FIT, StudyRow
from podsim.errors import PodsimError
from podsim.options.question import question
from podsim.options.study_options import FewestOptions
from podsim.questions.registry import ask
from podsim.studies.fewest import fewest_row, settings_of


@question(FewestOptions)
def fewest_gpus(options: FewestOptions) -> StudyRow:
    """The fewest GPUs whose best plan trains the tokens in some days, with failures, and that plan.

    The row has the time of every number of GPUs tried. Raises PodsimError for anything unusable.
    """
    row = fewest_row(settings_of(options), ask)
    if not row.cluster and row.status != NO_FIT:
        raise PodsimError(row.reason)
    return row
