"""YAML files, written plainly, and read without running anything and within a bound of memory.

A few hundred bytes of nested aliases can stand for gigabytes. Sizes are therefore counted with every alias followed,
while the text is parsed and before any value is made.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

LARGEST = 1 << 21
"""characters and values of a document, aliases followed: more than a mebibyte of text has without any"""


class YamlError(ValueError):
    """A text that is no YAML, or that comes to too much."""


def read_documents(text: str) -> list[Any]:
    """The values of all documents of a text. Raises YamlError."""
    try:
        return list(yaml.load_all(text, _BoundedLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(" ".join(str(error).split())[:200]) from None


def yaml_text(content: object) -> str:
    """Values as YAML without aliases; a text that YAML would take for something else is quoted."""
    return str(yaml.dump(content, Dumper=_PlainDumper, sort_keys=False, width=110))


def yaml_word(text: str, *, is_quoted: bool = False) -> str:
    """A text as a key or a value within a line of YAML, quoted where it needs to be, or always."""
    style = None if not is_quoted and re.fullmatch(r"[\w.-]+", text, re.ASCII) else '"'
    return str(yaml.dump(text, Dumper=_PlainDumper, default_style=style, width=float("inf"))).split("\n")[0]


class _PlainDumper(yaml.SafeDumper):
    """The safe dumper, but that it repeats what occurs twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _BoundedLoader(yaml.SafeLoader):
    """The safe loader, but that it counts."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if not is_alias:
            self.sizes[id(node)] = 1 + self._content(node)
        size = self.sizes.get(id(node))
        if size is None:
            raise yaml.YAMLError("an alias stands within what it repeats")
        if size > LARGEST:
            raise yaml.YAMLError(f"with its aliases followed it comes to more than {LARGEST:,} characters")
        return node

    def _content(self, node: yaml.Node | None) -> int:
        """Size of what a node holds."""
        if isinstance(node, yaml.MappingNode):
            return sum(self.sizes[id(key)] + self.sizes[id(value)] for key, value in node.value)
        if isinstance(node, yaml.SequenceNode):
            return sum(self.sizes[id(value)] for value in node.value)
        return len(node.value) if node is not None else 0
