"""Tables of text as rows, and rows that keep their place whatever they say."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from podsim.accuracy.measured_runs import NotExpressible
from podsim.errors import PodsimError

Cells = Mapping[str, str]
"""The cells of a row as text, by column; "" where blank."""
_BAD_CELLS = (ValueError, KeyError, TypeError, ArithmeticError, IndexError)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV, plain or gzip, with blanks around cells cut off; a missing cell is "".

    A blank or missing id is the number of the row's first line. What stands above the header in lines with # is the cell
    `remark` of each row.
    """
    data = path.read_bytes()
    text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode("utf-8-sig")
    remarks = []
    while text.startswith("#"):
        remark, _, text = text.partition("\n")
        remarks.append(remark.strip("# \r"))
    lines = csv.DictReader(io.StringIO(text, newline=""), restval="", restkey="")
    rows, start = [], len(remarks) + 2
    for line in lines:
        cells = {column: cell.strip() for column, cell in line.items() if column}
        rows.append(
            {**cells, "id": cells.get("id") or str(start)}
            | ({"remark": "; ".join(remarks)} if remarks else {})
        )
        start = len(remarks) + lines.line_num + 1
    return rows


def csv_text(rows: Sequence[Cells], columns: Iterable[str] = ()) -> str:
    """Rows as CSV, by default with all columns in the order of their first use."""
    names = list(columns) or list(dict.fromkeys(column for row in rows for column in row))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, names, lineterminator="\n", restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def each_row(
    rows: Iterable[Cells], columns: Sequence[str], canonical: Callable[[Cells], Cells]
) -> list[dict[str, str]]:
    """The canonical columns of every row: its own cells, or those that `canonical` gives it.

    A row that cannot be read keeps its own cells, and `reason` says why.
    """
    made = [{**row, **_cells_or_reason(row, canonical)} for row in rows]
    return [{column: row.get(column, "") for column in columns} for row in made]


def _cells_or_reason(row: Cells, canonical: Callable[[Cells], Cells]) -> Cells:
    try:
        return canonical(row)
    except (PodsimError, NotExpressible) as problem:
        return {"reason": str(problem)}
    except _BAD_CELLS as problem:  # an odd cell of one row costs no other row
        return {"reason": f"a cell cannot be read: {type(problem).__name__}: {problem}"}
