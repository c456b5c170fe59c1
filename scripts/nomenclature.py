"""Keeps docs/nomenclature.md level with the public dataclasses.

    python scripts/nomenclature.py [--check]

Rows that are there stay as they were written; a new field gets a row from its docstring and its type, to be read over;
a field that is gone loses its row. With --check nothing is written; the exit status is 1 if the page would change.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "nomenclature.md"
MODULES = (
    "results/prediction", "training/plan", "training/search", "training/software", "hardware/parts",
    "hardware/cluster", "workload/graph", "results/comparison", "results/scheduled", "results/sweep",
    "results/timeline", "results/simulated", "results/measured", "workload/op_graph", "workload/trace_graph",
    "results/graphs", "results/storage", "storage/parts", "storage/workloads", "results/runs", "results/served",
    "hardware/mig/profiles", "hardware/mig/layouts", "hardware/mig/best", "hardware/mig/change",
    "hardware/mig/measured", "hardware/mig/results", "serving/engine", "workload/convolution",
    "results/expense", "results/launched", "results/queued", "results/exchanged", "fleet/jobs",
    "fleet/policies", "results/lab", "results/lab_storage", "results/trained", "results/host",
    "results/acceptance", "hardware/measured",
)  # fmt: skip
"""where the public dataclasses live, in the order of the page"""
UNITS = (
    "s", "B", "B/s", "FLOP", "FLOP/s", "OP/s", "W", "Hz", "1/s", "share", "count", "factor", "text", "yes/no", "SI", "-",
    "J", "kg", "USD", "USD/s",
)  # fmt: skip
_WRITTEN = re.compile(r"(1/s|B/s|FLOP/s|FLOP|B|s|W|Hz|J|kg|USD/s|USD)(?=$|[\s,;:])")
_HEAD = """\
# Nomenclature

Every field of every public dataclass, with its unit. Inside podsim all quantities are SI floats and no name carries a
unit: a bandwidth is in B/s, a memory in B, a time in s. Text with a unit ("200 Gb/s") is read once, at the edge.

Units: `share` is a number from 0 to 1 (or a relative difference), `count` a whole number, `factor` a plain number,
`text` a name or a sentence, `USD` money, `SI` a quantity whose unit stands beside it, `-` a value with fields of its own.
"""


@dataclass(frozen=True)
class Field:
    """One field of a dataclass, as its source says."""

    name: str
    type: str
    said: str
    """its docstring"""


def dataclasses_of(module: str) -> Iterator[tuple[str, str, list[Field]]]:
    """(name, first line of the docstring, fields) of each public dataclass of a module."""
    tree = ast.parse((ROOT / "src" / "podsim" / f"{module}.py").read_text("utf-8"))
    for node in tree.body:
        made = isinstance(node, ast.ClassDef) and any(
            "dataclass" in ast.unparse(d) for d in node.decorator_list
        )
        if not made or not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        found = []
        for place, line in enumerate(node.body):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                after = node.body[place + 1] if place + 1 < len(node.body) else None
                said = ""
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    said = " ".join(str(after.value.value).split())
                found.append(Field(line.target.id, ast.unparse(line.annotation), said))
        yield node.name, (ast.get_docstring(node) or "").split("\n")[0], found


def first_row(field: Field) -> tuple[str, str]:
    """(unit, meaning) of a field that has no row yet."""
    written = _WRITTEN.match(field.said)
    if written:
        rest = field.said[written.end() :].lstrip(" ,;:")
        return written[1], rest or field.name.replace("_", " ")
    if field.said.startswith("share"):
        unit = "share"
    elif field.type in ("str", "str | None") or "str]" in field.type or "str, ...]" in field.type:
        unit = "text"
    elif field.type in ("bool", "Sequence[bool]"):
        unit = "yes/no"
    elif "int" in field.type.lower():
        unit = "count"
    elif "float" in field.type:
        unit = "factor"
    else:
        unit = "-"
    return unit, field.said or field.name.replace("_", " ")


def rows_of(page: str) -> dict[tuple[str, str], tuple[str, str]]:
    """(unit, meaning) by (class, field) of a page."""
    rows, name = {}, ""
    for line in page.splitlines():
        if line.startswith("## "):
            name = line.split("`")[1]
        elif line.startswith("| `"):
            field, unit, meaning = (cell.strip() for cell in line.strip("| ").split(" | ", 2))
            rows[name, field.strip("`")] = (unit, meaning)
    return rows


def page_of(rows: dict[tuple[str, str], tuple[str, str]]) -> str:
    """The page for the dataclasses as they are, with the rows already written."""
    parts = [_HEAD]
    for module in MODULES:
        for name, about, fields in dataclasses_of(module):
            lines = [
                f"## `{name}`\n",
                f"`podsim.{module.replace('/', '.')}`: {about}\n",
                "| name | unit | meaning |",
                "|---|---|---|",
            ]
            for field in fields:
                unit, meaning = rows.get((name, field.name), first_row(field))
                lines.append(f"| `{field.name}` | {unit} | {meaning} |")
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    old = PAGE.read_text("utf-8") if PAGE.exists() else ""
    new = page_of(rows_of(old))
    if not check:
        PAGE.write_text(new, "utf-8")
    return int(check and old != new)


if __name__ == "__main__":
    sys.exit(main())
