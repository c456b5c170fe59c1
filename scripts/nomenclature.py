"""Prints the unit and the meaning of every attribute of the public dataclasses, as Markdown.

    python scripts/nomenclature.py [CLASS ...]

Both come from the docstring of the attribute: "B/s. The bandwidth of one port." Where a docstring names no unit, the
type does: text, yes/no, a count, or "-" for a value with attributes of its own.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "podsim"
OTHERS = (
    "fleet/jobs", "fleet/policies", "graphs/op_graph", "graphs/trace_graph", "hardware/cluster",
    "hardware/measured_host", "hardware/mig/best", "hardware/mig/change", "hardware/mig/layouts",
    "hardware/mig/measured_slices", "hardware/mig/profiles", "hardware/mig/results", "hardware/parts",
    "options/plan_options", "serving/engines", "storage/storage_parts", "storage/workloads", "training/plan",
    "training/plan_values", "training/search", "training/software", "workload/convolution", "workload/model",
)  # fmt: skip
"""The modules with public dataclasses outside `answers/` and `questions/`."""
UNITS = (
    "s", "m", "B", "B/s", "FLOP", "FLOP/s", "OP/s", "W", "Hz", "1/s", "share", "count", "factor", "SI", "J", "kg", "USD",
    "USD/s", "nat",
)  # fmt: skip
_SAID = re.compile(rf"({'|'.join(map(re.escape, UNITS))})\. +(.*)")


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One attribute of a dataclass, as its source describes it."""

    name: str
    type: str
    unit: str
    """The unit in the docstring; "" if it names none."""
    meaning: str
    """The rest of the docstring; "" without one."""
    help: str
    """The description of an option; "" for other attributes."""

    @property
    def shown_unit(self) -> str:
        """The unit, or what the type says of it."""
        kinds = {"text": "str", "yes/no": "bool|Flags", "count": "int|Ints"}
        return self.unit or next(
            (unit for unit, words in kinds.items() if re.search(rf"\b({words})\b", self.type)), "-"
        )


@dataclass(frozen=True, kw_only=True)
class Documented:
    """One public dataclass."""

    module: str
    name: str
    about: str
    """The first line of its docstring."""
    bases: tuple[str, ...]
    """The classes whose attributes it has, too."""
    attributes: tuple[Attribute, ...]


def modules() -> list[str]:
    """The modules with public dataclasses, as paths without suffix."""
    answers = [*SOURCE.glob("answers/[!_]*.py"), *SOURCE.glob("questions/*/[!_]*.py")]
    return sorted([*OTHERS, *(path.relative_to(SOURCE).with_suffix("").as_posix() for path in answers)])


def dataclasses_of(module: str, *, private: bool = False) -> Iterator[Documented]:
    """Each public dataclass of a module, or with `private` each dataclass, in the order of the source."""
    for node in ast.parse((SOURCE / f"{module}.py").read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and _is_dataclass(node) and (private or _is_public(node)):
            about = (ast.get_docstring(node) or "").split("\n")[0]
            yield Documented(
                module=module, name=node.name, about=about,
                bases=tuple(ast.unparse(base) for base in node.bases), attributes=tuple(_attributes(node)),
            )  # fmt: skip


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _is_public(node: ast.ClassDef) -> bool:
    """Whether it is public; groups of options describe their fields themselves."""
    return not node.name.startswith("_") and not node.name.endswith("Options")


def _attributes(node: ast.ClassDef) -> Iterator[Attribute]:
    for line, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            docstring = ""
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                docstring = " ".join(str(below.value.value).split())
            said = _SAID.fullmatch(docstring)
            unit, meaning = said.groups() if said else ("", docstring)
            yield Attribute(
                name=line.target.id, type=ast.unparse(line.annotation), unit=unit, meaning=meaning, help=_help(line.value)
            )  # fmt: skip


def _help(value: ast.expr | None) -> str:
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "option":
        text = value.args[1]
        return str(ast.literal_eval(text)) if isinstance(text, ast.Constant) else ast.unparse(text)
    return ""


def section_of(documented: Documented) -> str:
    """The table of one dataclass."""
    rows = [
        f"| `{attribute.name}` | {attribute.shown_unit} | {attribute.meaning or attribute.help} |"
        for attribute in documented.attributes
    ]
    title = f"## `{documented.name}`\n\n`podsim.{documented.module.replace('/', '.')}`: {documented.about}\n"
    bases = f"It has the attributes of {', '.join(documented.bases)}.\n\n" if documented.bases else ""
    table = ["| name | unit | meaning |", "|---|---|---|", *rows] if rows else []
    return f"{title}\n{bases}" + "\n".join(table) + "\n"


def main() -> int:
    """Print the tables of all classes, or of those that are named; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="CLASS")
    names = parser.parse_args().names
    known = [documented for module in modules() for documented in dataclasses_of(module)]
    shown = [documented for documented in known if not names or documented.name in names]
    print("\n".join(section_of(documented) for documented in shown))
    return 0 if shown else 1


if __name__ == "__main__":
    sys.exit(main())
