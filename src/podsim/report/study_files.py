"""A study as a workbook or a Parquet file: a row a design, numbers in SI. Needs podsim[study]."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from typing import Any

from podsim.answers.study import StudyResult
from podsim.errors import PodsimError
from podsim.packaged import install_hint
from podsim.quoting import cell_text, visible, whole
from podsim.report.study_tables import UNITS, flat_rows
from podsim.whole_files import write_whole


def write_workbook(result: StudyResult, path: Path) -> None:
    """Write an Excel workbook: a sheet of designs, and one of the columns' units."""
    openpyxl = _package("openpyxl")
    book = openpyxl.Workbook()
    rows = flat_rows(result)
    sheet = book.active
    sheet.title, sheet.freeze_panes = "designs", "B2"
    sheet.append([_cell(name) for name in rows[0]])
    for row in rows:
        sheet.append([_cell(value) for value in row.values()])
    sheet.auto_filter.ref = sheet.dimensions
    units = book.create_sheet("units")
    units.append(["column", "unit"])
    for column in rows[0]:
        units.append([_cell(column), UNITS.get(column, "")])
    content = io.BytesIO()
    book.save(content)
    write_whole(path, content.getvalue())


def _cell(value: Any) -> Any:
    """A value, or a text that is no formula and that XML can hold."""
    return visible(cell_text(value)) if isinstance(value, str) else value


def write_parquet(result: StudyResult, path: Path) -> None:
    """Write a Parquet file; the metadata of a column has its unit, and settings of mixed types are text."""
    arrow, parquet = _package("pyarrow"), _package("pyarrow.parquet")
    rows = flat_rows(result)
    arrays, fields = [], []
    for name in rows[0]:
        values = [row[name] for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            values = [None if value is None else str(value) for value in values]
        elif kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        array = arrow.array([whole(value) if isinstance(value, str) else value for value in values])
        arrays.append(array)
        fields.append(arrow.field(name, array.type, metadata={"unit": UNITS.get(name, "")}))
    table = arrow.Table.from_arrays(arrays, schema=arrow.schema(fields))
    content = io.BytesIO()
    parquet.write_table(table, content)
    write_whole(path, content.getvalue())


def _package(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise PodsimError(f"this file needs {module.partition('.')[0]}: {install_hint('study')}") from None
