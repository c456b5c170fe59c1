"""What a cell affirms and what it denies: "FSDP=0", "no FSDP", "FSDP: off" and "without FSDP" all deny FSDP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from podsim.accuracy.measured_runs import cell_text

DENIED = "none"
"""The cell of a setting that its source denies."""
_BEFORE = r"(?:no(?!\.)|not|non|without|w/o|w/out|sans|excluding|excl\.?|minus)"
_AFTER = r"(?:off|none|disabled|unused|absent|(?:not|never) (?:used|enabled|applied|active|on)|false)"
_LAST = r"(?:no|n|0(?:\.0)?)(?=\s*(?:[,;)\]+|&]|$))"
_UNSAID = (
    r"(?:stated|given|reported|restated|known|specified|printed|published|said|used|enabled|applied|active|on|in|a|an|"
    r"the|all|only|yet|halved)\b"
)
_LINKS = r"(?:is|are|was|were|in|at|for|of|with|but|and|from|by|to|when|because|than|since)\b"
_WORD = rf"(?!{_LINKS})[A-Za-z][\w./-]*"
_PATTERNS = tuple(
    re.compile(text, re.IGNORECASE)
    for text in (
        rf"(?<![\w-])(?:--)?{_BEFORE}[\s:=_-]+(?!{_UNSAID})(?P<what>[\w./-]+(?:\s+{_WORD}){{0,4}})",
        rf"(?P<what>(?:(?<![\w=])(?!{_LINKS})[a-z-]+\s+){{0,4}}[\w./-]+)[=:](?:{_AFTER}|no|n|0(?:\.0)?)(?![\w.])",
        rf"(?P<what>{_WORD}(?:[\s_-]+{_WORD}){{0,4}})\s*(?:\s|=|:|is|are|was)\s*(?:{_AFTER}\b|{_LAST})",
    )
)
_BARE = re.compile(rf"\W*(?:{_AFTER}|no|n|nil|without|w/o|0(?:\.0)?)\W*", re.IGNORECASE)
_DEGREES = ("tp", "pp", "virtual_pp", "cp", "ep")
_EXPERTS = ("moe_experts", "moe_topk")
_OWN = {
    "zero_stage_or_fsdp": r"zero|optimi[sz]er|shard",
    "seq_parallel": r"\bsp\b|sequence",
    "recompute": r"recomp|checkpoint|remat|\bac\b",
}
"""Column -> the words of its own setting. FSDP is one way to divide: who denies it may divide the optimizer alone."""
_WORDED = (*_OWN, "precision", "framework", "model", "gpu", "node_type", "interconnect")


class Said(NamedTuple):
    """The two parts of a cell."""

    affirmed: str
    denied: str
    """What it denies, without the words of denial; DENIED where it says no more than that."""


@lru_cache(maxsize=4096)
def read_denials(text: str) -> Said:
    """What a text affirms and denies. A text without a word of denial is affirmed as it stands."""
    if _BARE.fullmatch(text):
        return Said("", DENIED)
    rest, denied = text, []
    for pattern in _PATTERNS:
        denied += [match["what"] for match in pattern.finditer(rest)]
        rest = pattern.sub(" ", rest)
    if not denied:
        return Said(text, "")
    rest = re.sub(r"[(\[]\W*[)\]]", " ", rest)
    rest = re.sub(r"\s*([,;+|&])(?:\s*[,;+|&])+", r"\1", rest)
    return Said(re.sub(r"\s+", " ", rest).strip(" ,;+|&/-(="), "; ".join(denied))


def plain_degrees(row: Mapping[str, str]) -> dict[str, str]:
    """The row with 1 where it denies a way to divide, and no experts where it denies them."""
    cells = dict(row)
    for column in (*_DEGREES, *_EXPERTS):
        said = read_denials(cell_text(row, column))
        if said.denied and not said.affirmed:
            cells[column] = "1" if column in _DEGREES else ""
    return cells


def affirmed_cells(row: Mapping[str, str]) -> dict[str, str]:
    """The row with what its worded columns affirm; DENIED in a column whose own setting one of them denies.

    A column that only denies something else says nothing.
    """
    said = {column: read_denials(cell_text(row, column)) for column in _WORDED}
    cells = dict(row) | {column: text.affirmed for column, text in said.items() if text.denied}
    everything = "; ".join(text.denied for text in said.values())
    for column, words in _OWN.items():
        is_bare = said[column].denied == DENIED
        if not cell_text(cells, column) and (is_bare or re.search(words, everything, re.IGNORECASE)):
            cells[column] = DENIED
    return cells
