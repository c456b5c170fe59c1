"""Quoting of users' text in other languages: a terminal, a spreadsheet, a page's script.

Other languages have a quoting of their own: `safe_yaml` for YAML, Jinja2 for HTML. A table of tests,
tests/made/sink_table.py, sends one list of hostile texts into each.
"""

from __future__ import annotations

import json
import re
import shlex
from unicodedata import category

from podsim.errors import PodsimError

_GAP = r"[\s\0\ufeff\u200b-\u200f]*"
_AMOUNT = r"[0-9][0-9.,]*(?:e[+-]?[0-9]+)?(?: ?%)?(?: [^-+*/^&=<>()\[\]{}|!:@\"'#]*)?"
_FORMULA = re.compile(
    rf"'*(?:[\t\r\n]|{_GAP}[=@\uff1d\uff20]|{_GAP}[+\-\uff0b\uff0d](?![+-]*(?:{_AMOUNT})?\Z))", re.DOTALL
)
"""text that a spreadsheet would run; a sign before an amount, as in "+2 % time", is harmless"""


def visible(text: str) -> str:
    """Text in which characters that print nothing are spelled out: escapes that steer a terminal, marks that turn text.

    XML and a page may hold what is left, too.
    """
    return "".join(
        char if char.isprintable() or category(char) == "Zs" else char.encode("unicode_escape").decode()
        for char in text
    )


def visible_lines(text: str) -> str:
    """Text of lines and tabs that is `visible` between them."""
    return re.sub(r"[^\n\t]+", lambda part: visible(part[0]), text)


def whole(text: str) -> str:
    """Text without halves of characters, which no file in UTF-8 holds."""
    return text.encode("utf-8", "replace").decode()


def cell_text(text: str) -> str:
    """Text of a spreadsheet's cell, with an apostrophe before it where the spreadsheet would run it as a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def from_cell(text: str) -> str:
    """The text of which `cell_text` made a cell."""
    return text[1:] if text[:1] == "'" and _FORMULA.match(text[1:]) else text


def shell_word(text: str) -> str:
    """A word for a shell. Raises PodsimError for one that no program can be given."""
    if "\0" in text or (not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)):
        raise PodsimError(f"{visible(text)[:80]!r} holds a character that no argument of a program holds")
    return shlex.quote(text)


def toml_text(value: object) -> str:
    """A text, a number or a list as TOML: JSON, but for a character that JSON escapes by halves, and for DEL."""
    return whole(json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f"))


def script_json(value: object) -> str:
    """JSON that a page's script element may hold: nothing in it ends the element, or begins a comment."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
