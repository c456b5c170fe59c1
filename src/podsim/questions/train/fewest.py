"""The fewest GPUs that train a model in some days."""

from __future__ import annotations

from podsim.answers.study import NO_FIT, StudyRow
from podsim.errors import PodsimError
from podsim.options.question import options_of, question
from podsim.options.study_options import FewestOptions
from podsim.questions.registry import ask
from podsim.studies.fewest import fewest_row


@question(FewestOptions)
def fewest_gpus(options: FewestOptions) -> StudyRow:
    """The fewest GPUs whose best plan trains the tokens in some days, with failures, and that plan.

    The row has the time of every number of GPUs tried. Raises PodsimError for anything unusable.
    """
    given = {name: getattr(options, name) for name in options_of(FewestOptions)}
    settings = {
        key: value for key, value in given.items() if value not in (None, "") and key not in ("top", "save")
    }
    for table, name in (("set", "overrides"), ("limit", "limit")):
        settings |= {f"{table}.{key}": value for key, value in (settings.pop(name, None) or {}).items()}
    row = fewest_row(settings, ask)
    if not row.cluster and row.status != NO_FIT:
        raise PodsimError(row.reason)
    return row
