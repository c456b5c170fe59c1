"""What `mkdocs build` adds to the documents: outputs of their commands, the reference, and lists of pages.

A page whose head says `run: true` shows the output of each command with a prompt, and the picture that it draws.
With PODSIM_SITE_STATIC=1 it shows the commands alone, which takes seconds instead of a minute.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.utils.meta import get_data

import podsim
from podsim.cli import app

sys.path.insert(0, str(Path(__file__).parent))
from nomenclature import dataclasses_of  # a script of this folder

PROMPT = "    $ podsim "
PICTURE = re.compile(r"\S+\.svg\b")
LONGEST = 45
"""lines of an output that a page shows"""
FACT = re.compile(
    r"^    (Days|Money|Memory|Step|Energy|Layout) +(.+?)(?:[,;:] | (?=with))([^(▇\n]*)", flags=re.MULTILINE
)
FORMULA = re.compile(r"^```math\n(.+?)\n```$", flags=re.MULTILINE | re.DOTALL)
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:examples|reference|benchmarks|CONTRIBUTING|README)[^)]*\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the sections of the navigation that are a folder: its README, then its other pages by name."""
    docs = Path(config.docs_dir)
    for entry in config.nav or []:
        for title, folder in entry.items():
            if isinstance(folder, str) and (docs / folder).is_dir():
                names = (path.name for path in (docs / folder).glob("*.md"))
                pages = sorted(names, key=lambda name: (name != "README.md", name))
                entry[title] = [f"{folder}/{name}" for name in pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference, and replace pages that show outputs."""
    os.environ.update(COLUMNS="88", NO_COLOR="1")
    made = {"reference/commands.md": "\n".join(_commands()), "reference/python.md": "\n".join(_functions())}
    made |= _accuracy(Path(config.docs_dir)) | {"reference/map.md": _map(Path(config.docs_dir).parent)}
    files.remove(next(file for file in files if file.src_uri == "accuracy.md"))
    for source in [file for file in files if file.is_documentation_page()]:
        text, head = get_data(source.content_string)
        if head.get("run") and not os.environ.get("PODSIM_SITE_STATIC"):
            with tempfile.TemporaryDirectory() as folder:
                text, pictures = _with_outputs(text, Path(folder))
                files.remove(source)
                made[source.src_uri] = text
                for name, content in pictures.items():
                    uri = f"{Path(source.src_uri).parent.as_posix()}/{name}".removeprefix("./")
                    files.append(File.generated(config, uri, content=content))
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, config: MkDocsConfig, **_: Any) -> str:
    """Typeset formulas as MathML, show the answer of the README, and name files outside the documents."""
    for formula in FORMULA.findall(markdown):  # the converter knows `aligned` as `align*`
        made = convert(formula.replace("{aligned}", "{align*}"), display="block")
        markdown = markdown.replace(f"```math\n{formula}\n```", f'<div class="formula">{made}</div>')
    readme = (Path(config.docs_dir).parent / "README.md").read_text("utf-8")
    tiles = "".join(
        f"<div><dt>{name}</dt><dd>{figure}<p>{rest}</p></dd></div>"
        for name, figure, rest in FACT.findall(readme)
    )
    return OUTSIDE.sub(r"\1", markdown).replace("<!-- answer -->", f'<dl class="answer">{tiles}</dl>')


def _accuracy(docs: Path) -> dict[str, str]:
    """The recorded page of accuracy as an index, a page for each section, and one for each table, by address."""
    head, *sections = re.split(r"^#(?=# )", (docs / "accuracy.md").read_text("utf-8"), flags=re.M)
    pages, tables = {}, []
    for section in sections:
        first, *classes = re.split(r"^##(?=# )", section, flags=re.M)
        for text in classes:
            name, title, page, errors = _table_page(text, "".join(sections).splitlines())
            pages[f"accuracy/{name}.md"] = page
            tables.append([f"[{title}](accuracy/{name}.md)", *errors])
        if not classes:
            title = first.splitlines()[0].removeprefix("# ")
            pages[uri := f"accuracy/{re.sub('[^a-z]+', '-', title.lower()).strip('-')}.md"] = first
            head += f"- [{title}]({uri})\n"
    index = f"{head}\n## Tables\n\n{_table(('table', 'test rows', 'MAE', 'bias'), tables)}"
    return {"accuracy.md": index} | pages


def _table_page(classes: str, lines: Sequence[str]) -> tuple[str, str, str, Sequence[str]]:
    """The name, title and page of one table of measurements, and its test rows, MAE and bias."""
    title, _, rest = classes.removeprefix("# ").partition("\n")
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith(f"| {title} (`")]
    heads = next(line.strip("| ").split(" | ") for line in lines if line.startswith("| table | rows | MAE"))
    name = rows[0][0].split("(`")[1].split("`")[0]
    source = next((line for line in lines if line.startswith(f"- `{name}`: ")), "")
    figures = [cells for cells in zip(heads, *rows, strict=True) if set(cells[1:]) != {"-"}]
    overall = _table(("", "test", "calibrate")[: len(rows) + 1], figures[1:])
    page = f"# {title}\n\n[All tables](../accuracy.md)\n\n{overall}\n## By class (`test` rows)\n{rest}\n{source}\n"
    return name, title, page, [rows[0][heads.index(head)] for head in ("rows", "MAE", "bias")]


def _map(root: Path) -> str:
    """A page with the floors of the house from the import contract, and what each room says of itself."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    floors = next(contract["layers"] for contract in contracts if "layers" in contract)
    rows = []
    for floor, rooms in enumerate(reversed(floors), 1):
        for room in rooms.split(" | "):
            about = inspect.getdoc(importlib.import_module(f"podsim.{room}")) or ""
            rows.append((str(floor), f"`{room}`", about.partition("\n")[0]))
    table = _table(("floor", "room", "what it is"), reversed(rows))
    return f"# A map of the house\n\nEach room of `src/podsim` uses only the floors below it.\n\n{table}"


def _with_outputs(text: str, folder: Path) -> tuple[str, dict[str, bytes]]:
    """The page with the output below each block of commands, and the pictures that they drew, by name."""
    lines, pictures = [], {}
    home = Path.cwd()
    os.chdir(folder)
    try:
        for line in text.splitlines():
            lines.append(line)
            if line.startswith(PROMPT):
                command = line.removeprefix(PROMPT)
                lines += _shown(command)
                for name in PICTURE.findall(command):
                    pictures[name] = (folder / name).read_bytes()
                    lines += ["", f"![podsim {command}]({name})", ""]
    finally:
        os.chdir(home)
    return "\n".join(lines), pictures


def _shown(command: str) -> list[str]:
    """The first lines of a command's output, as an indented block; SystemExit if it fails."""
    result = CliRunner().invoke(app, shlex.split(command))
    if result.exit_code:
        raise SystemExit(f"podsim {command}: exit status {result.exit_code}\n{result.stderr}")
    output = result.stdout.rstrip().splitlines()
    more = [f"... {len(output) - LONGEST} more lines"] if len(output) > LONGEST else []
    return [f"    {line}".rstrip() for line in ["", *output[:LONGEST], *more, ""]]


def _commands() -> Iterator[str]:
    """A page with the help of every command."""
    yield "# Commands\n\nEvery command takes `--help` and most print `--json` or `--csv`, with numbers in SI.\n"
    for name, command in sorted(app.commands.items()):
        children = getattr(command, "commands", {})
        for words in [(name, child) for child in sorted(children)] or [(name,)]:
            text = CliRunner().invoke(app, [*words, "--help"]).stdout.rstrip()
            yield f"## {' '.join(words)}\n\n```text\n{text}\n```\n"


def _functions() -> Iterator[str]:
    """A page with the docstring of every public function and class, and the attributes of the classes."""
    yield "# Python\n\nEvery command is a function of `podsim`; `import podsim` loads nothing heavy.\n"
    for name in sorted(podsim.__all__):
        value = getattr(podsim, name)
        if inspect.isclass(value):
            yield f"## {name}\n\n{inspect.getdoc(value)}\n\n{_attributes(value)}"
        elif inspect.isfunction(value):
            about, _, options = (inspect.getdoc(value) or "").partition("\nOptions:\n")
            yield f"## {name}\n\n{_call(name, value)}\n\n{about}\n\n{_options(options)}"


def _call(name: str, function: Any) -> str:
    """How a function is called, without annotations, as a block of code."""
    signature = inspect.signature(function)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return f"```python\npodsim.{name}{signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)}\n```"


def _options(text: str) -> str:
    """The options of a docstring as a table; "" without any."""
    rows = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return _table(("option", "meaning"), ([f"`{name}`", meaning] for name, meaning in rows)) if rows else ""


def _attributes(value: type) -> str:
    """The attributes of a public dataclass as a table; "" of other classes."""
    module = value.__module__.removeprefix("podsim.").replace(".", "/")
    known = next((each for each in dataclasses_of(module) if each.name == value.__name__), None)
    if known is None or not known.attributes:
        return ""
    rows = ([f"`{each.name}`", each.shown_unit, each.meaning or each.help] for each in known.attributes)
    return _table(("attribute", "unit", "meaning"), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
