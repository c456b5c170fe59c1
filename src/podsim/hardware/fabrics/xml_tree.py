"""A safe XML parser: a plain tree of elements, with the line of each.

It rejects document types and with them all entities; files that are too large, too deep or have too many elements;
and malformed text. It fetches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from podsim.errors import TableError

MOST_BYTES = 4 << 20
MOST_ELEMENTS = 20_000
MOST_DEPTH = 64


@dataclass(frozen=True, kw_only=True)
class Element:
    """An element with its attributes, without the text between elements."""

    tag: str
    line: int
    attributes: Mapping[str, str]
    children: list[Element] = field(default_factory=list)

    def every(self, tag: str) -> Iterator[Element]:
        """The children with a tag."""
        return (child for child in self.children if child.tag == tag)


class _Builder:
    """The handlers of the parser."""

    def __init__(self, parser: expat.XMLParserType, name: str) -> None:
        self.parser, self.name = parser, name
        self.open: list[Element] = []
        self.root: Element | None = None
        self.count = 0

    def error(self, text: str) -> TableError:
        return TableError(f"{self.name}, line {self.parser.CurrentLineNumber}: {text}")

    def doctype(self, *_: object) -> None:
        raise self.error("a document type is not allowed: it may define entities; remove <!DOCTYPE …>")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if self.count > MOST_ELEMENTS:
            raise self.error(f"more than {MOST_ELEMENTS:,} elements")
        if len(self.open) >= MOST_DEPTH:
            raise self.error(f"elements more than {MOST_DEPTH} deep")
        element = Element(tag=tag, line=self.parser.CurrentLineNumber, attributes=attributes)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, _: str) -> None:
        self.open.pop()


def parse_xml(text: str | bytes, name: str) -> Element:
    """The root element of a document. Raises TableError, with the line, for documents that this module rejects."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > MOST_BYTES:
        raise TableError(f"{name}: {len(data):,} bytes; at most {MOST_BYTES:,} are read")
    # decoded text becomes UTF-8, whatever encoding it declares
    parser = expat.ParserCreate("utf-8" if isinstance(text, str) else None)
    builder = _Builder(parser, name)
    parser.StartDoctypeDeclHandler = builder.doctype
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise TableError(
            f"{name}, line {error.lineno}: not well-formed XML: {expat.ErrorString(error.code)}"
        ) from None
    except (LookupError, ValueError) as error:  # an unknown or unusable encoding
        if isinstance(error, TableError):
            raise
        raise TableError(f"{name}: {error}") from None
    assert builder.root is not None
    return builder.root
