"""Commands of a shell script, with its variables filled in: enough of bash to read how people start training.

Understood: quotes, comments, line continuations, NAME=value, NAME=( … ), $NAME, ${NAME}, ${NAME:-default},
"${NAME[@]}" and $((arithmetic)). Nothing is run. What is not known, such as $(hostname), stays as it is written.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from podsim.errors import PodsimError

LARGEST = 1 << 20
"""characters of the longest script read"""
_LONGEST = 1 << 16
"""characters of a word, variables filled in"""
_MOST_WORDS = 200_000
"""words of a script, variables filled in: a variable that doubles itself line by line must end somewhere"""
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
_DECLARES = ("export", "declare", "local", "readonly", "typeset")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def commands(text: str, known: Mapping[str, str] | None = None) -> list[list[str]]:
    """Words of every command, in order; `known` holds variables that the context sets.

    Raises PodsimError for a quote or bracket that never ends, and for a script that is too long.
    """
    if len(text) > LARGEST:
        raise PodsimError(f"{len(text):,} characters are too many for a script; at most {LARGEST:,}")
    return _Reader(text.replace("\r\n", "\n"), {k: [v] for k, v in (known or {}).items()}).run()


class _Reader:
    """The script, how far it is read, and its variables."""

    def __init__(self, text: str, variables: dict[str, list[str]]) -> None:
        self.text = text
        self.at = 0
        self.variables = variables
        self.found: list[list[str]] = []
        self.words: list[str] = []
        self.word: str | None = None
        self.count = 0
        self.inside = False

    def run(self) -> list[list[str]]:
        while self.at < len(self.text):
            self.step()
        self.end_command()
        return self.found

    def step(self) -> None:
        """Read one character, or what it opens."""
        c = self.text[self.at]
        self.at += 1
        if c in " \t":
            self.end_word()
        elif c == "#" and self.word is None:
            self.at = self.find("\n", missing=len(self.text))
        elif c == "\\":
            self.escape()
        elif c == "'":
            self.add(self.until("'"))
        elif c == '"':
            self.quoted()
        elif c in "$`":
            self.expand(c, split=not _is_assignment(self.word))
        elif c == "(" and self.word is not None and _ASSIGNMENT.fullmatch(self.word):
            self.array()
        elif c in "\n;&|()":
            self.end_command()
        elif c in "<>":
            self.word = None if self.word is not None and self.word.isdecimal() else self.word
            self.redirect()
        else:
            self.add(c)

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def add(self, text: str) -> None:
        self.word = (self.word or "") + text
        if len(self.word) > _LONGEST:
            raise PodsimError(f"a word of more than {_LONGEST:,} characters; nothing is started like that")

    def find(self, what: str, *, missing: int = -1) -> int:
        position = self.text.find(what, self.at)
        return position if position >= 0 else missing

    def until(self, what: str) -> str:
        """Text up to a mark, which is passed."""
        position = self.find(what)
        if position < 0:
            raise PodsimError(f"line {self.line}: {what} is missing; what was opened there never ends")
        start, self.at = self.at, position + len(what)
        return self.text[start:position]

    def escape(self) -> None:
        if self.text[self.at : self.at + 1] != "\n":
            self.add(self.text[self.at : self.at + 1])
        self.at += 1

    def quoted(self) -> None:
        """The inside of double quotes."""
        self.add("")
        start = self.at
        while self.at < len(self.text):
            c = self.text[self.at]
            self.at += 1
            if c == '"':
                return
            if c == "\\":
                if self.text[self.at : self.at + 1] not in ("\n", '"', "\\", "$", "`"):
                    self.add("\\")
                self.escape()
            elif c in "$`":
                self.expand(c, split=False)
            else:
                self.add(c)
        self.at = start
        self.until('"')

    def redirect(self) -> None:
        """Pass a redirection and where it goes to."""
        self.end_word()
        while self.text[self.at : self.at + 1] and self.text[self.at] in "<>&| \t":
            self.at += 1
        while self.text[self.at : self.at + 1] and self.text[self.at] not in " \t\n;&|)":
            self.at += 1

    def array(self) -> None:
        """The inside of NAME=( … )."""
        assert self.word is not None
        if self.inside:
            raise PodsimError(f"line {self.line}: an array inside an array, which a shell does not have")
        self.inside = True
        name = self.word.rstrip("+=")
        more = self.word.endswith("+=")
        outer, self.words, self.word = self.words, [], None
        start = self.at
        while self.text[self.at : self.at + 1] != ")":
            if self.at >= len(self.text):
                self.at = start
                self.until(")")
            if self.text[self.at] == "\n":
                self.end_word()
                self.at += 1
            else:
                self.step()
        self.at += 1
        self.inside = False
        self.end_word()
        self.variables[name] = (self.variables.get(name, []) if more else []) + self.words
        self.words = outer

    def end_word(self) -> None:
        if self.word is not None:
            self.words.append(self.word)
            self.count += 1
            if self.count > _MOST_WORDS:
                raise PodsimError(
                    f"the script comes to more than {_MOST_WORDS:,} words; nothing is started like that"
                )
        self.word = None

    def end_command(self) -> None:
        """Set variables, or keep a command."""
        self.end_word()
        words = self.words[1:] if self.words[:1] and self.words[0] in _DECLARES else self.words
        if words and all(_is_assignment(word) for word in words):
            for word in words:
                name, _, value = word.partition("=")
                key = name.rstrip("+")
                before = " ".join(self.variables.get(key, [])) if name.endswith("+") else ""
                self.variables[key] = [before + value]
        elif self.words:
            while self.words and _is_assignment(self.words[0]):
                del self.words[0]
            self.found.append(self.words)
        self.words = []

    def expand(self, mark: str, *, split: bool) -> None:
        """A variable, arithmetic, or a command whose result is not known."""
        if mark == "`":
            self.add(f"`{self.until('`')}`")
        elif self.text.startswith("((", self.at):
            self.at += 2
            inside = self.until("))")
            value = _arithmetic(inside, self.variables)
            self.add(f"$(({inside}))" if value is None else str(value))
        elif self.text.startswith("(", self.at):
            self.add("$" + self.balanced())
        elif self.text.startswith("{", self.at):
            self.at += 1
            self.fill(self.until("}"), split=split)
        elif name := _NAME.match(self.text, self.at):
            self.at = name.end()
            self.fill(name[0], split=split)
        else:
            self.add("$")

    def balanced(self) -> str:
        depth, start = 0, self.at
        while self.at < len(self.text):
            depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            self.at += 1
            if depth == 0:
                return self.text[start : self.at]
        self.at = start + 1
        return self.until(")")

    def fill(self, inside: str, *, split: bool) -> None:
        """What stands in ${…}."""
        name = _NAME.match(inside)
        rest = inside[name.end() :] if name else inside
        key = name[0] if name else ""
        default = re.match(r":?[-=]", rest)
        if key in self.variables and (not default or self.variables[key] != [""]):
            values = self.variables[key]
        elif default:
            values = [rest[default.end() :].strip("\"'")]
        else:
            self.add("$" + inside if name and not rest else "${" + inside + "}")
            return
        every = rest in ("[@]", "[*]")
        pieces = values if every else [" ".join(values)]
        if split or every:
            pieces = [part for piece in pieces for part in (piece.split() if split else [piece])]
        for number, piece in enumerate(pieces):
            if number:
                self.end_word()
            self.add(piece)


def _is_assignment(word: str | None) -> bool:
    return word is not None and _ASSIGNMENT.match(word) is not None


def _arithmetic(text: str, variables: Mapping[str, list[str]]) -> int | None:
    """The whole number of an expression; None if it is not known."""
    filled = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda m: " ".join(variables.get(m[1], [m[1]])), text)
    if len(filled) > 200:
        return None
    try:
        return _value(ast.parse(filled.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    raise ValueError
