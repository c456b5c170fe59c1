"""An acceptance as JUnit XML, which CI servers read: a suite for each group, a case for each line."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from podsim.answers.acceptance import Acceptance, Check, Part
from podsim.quoting import visible_lines

_FAILED = ("differs", "wrong result", "falls short", "above the limit")
_SKIPPED = ("not run", "no expectation", "cannot tell here")


def junit_text(acceptance: Acceptance) -> str:
    """The XML. A remark is a case that passed with its reason in the output."""
    groups: dict[str, list[Part | Check]] = {"inventory": list(acceptance.parts)} if acceptance.parts else {}
    for check in acceptance.checks:
        groups.setdefault(check.group, []).append(check)
    root = Xml.Element(
        "testsuites", name=f"podsim verify {acceptance.expected}", time=f"{acceptance.seconds:.3f}"
    )
    for group, rows in groups.items():
        verdicts = [row.verdict for row in rows]
        suite = Xml.SubElement(
            root, "testsuite", name=group, timestamp=acceptance.started, hostname=acceptance.machine,
            tests=str(len(rows)), failures=str(sum(verdict in _FAILED for verdict in verdicts)), errors="0",
            skipped=str(sum(verdict in _SKIPPED for verdict in verdicts)),
        )  # fmt: skip
        for row in rows:
            _case(suite, group, row)
    for element in root.iter():  # without the characters that XML 1.0 forbids
        element.attrib = {name: visible_lines(value) for name, value in element.attrib.items()}
        element.text = visible_lines(element.text or "") or None
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(root, "unicode")}\n'


def _case(suite: Xml.Element, group: str, row: Part | Check) -> None:
    case = Xml.SubElement(suite, "testcase", classname=f"podsim.verify.{group}", name=row.name)
    values = (row.expected, row.found) if isinstance(row, Part) else (row.expected, row.measured)
    text = "; ".join([f"expected {values[0]}, found {values[1]}", *filter(None, [row.why])])
    if row.verdict in _FAILED:
        Xml.SubElement(case, "failure", message=row.verdict, type=row.verdict).text = text
    elif row.verdict in _SKIPPED:
        Xml.SubElement(case, "skipped", message=f"{row.verdict}: {row.why}")
    else:
        Xml.SubElement(case, "system-out").text = text
