"""`podsim storage show`: the sheet of a storage system, or of all of them."""

from __future__ import annotations

from podsim.answers.answer import View
from podsim.answers.storage import StorageSheet
from podsim.options.question import question
from podsim.options.storage_options import StorageShowOptions
from podsim.storage.catalog import load_storage, storage_names
from podsim.storage.storage_sheet import storage_sheet

_VIEW = View(
    report="report.storage_tables:sheets_report",
    rows=lambda answer: answer if isinstance(answer, list) else [answer],
)


@question(StorageShowOptions, view=_VIEW)
def storage_show(options: StorageShowOptions) -> StorageSheet | list[StorageSheet]:
    """The sheet of a storage system (weka-ra, weka-ra:4), or of all of them."""
    if not options.name:
        return [storage_sheet(*load_storage(name)) for name in storage_names()]
    return storage_sheet(*load_storage(options.name, options.overrides, client=options.client))
