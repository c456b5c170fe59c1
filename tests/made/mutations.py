"""Files gone wrong: bytes, words and lines, values of structures, containers and things that are no file; by a seed."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import random
import re
import tomllib
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import yaml

NUMBERS = (
    "²", "٣", "NaN", "nan", "Infinity", "-inf", "1e999", "-1", "0", "9" * 5000, "0x10", "1_000", "", "1e308",
    "1e-320", "-0.0", "2147483648", "9223372036854775808", "1e18", "1.5", "true", "null", "½", "1,5", "--1",
    "1e", "١٢", "99999999999", "1e40", "[1]", "{}", '"x"',
)  # fmt: skip
"""what stands in place of a number"""
VALUES = (
    None, True, False, 0, -1, 1, 2, 1.5, -0.5, 1e308, -1e308, 1e-320, 10**18, 10**25, 10**400, 2**31, 2**63,
    "", " ", "x", "²", "NaN", "1e999", "-1", "1", "\0", "\ud800", "ä" * 300, "x" * 5000, [], {}, [[]], [None],
    [1, 2], ["x"], {"a": 1}, {"": []}, [[1, 2], [3]], {"1": {"2": {}}}, float("nan"), float("inf"), [1] * 1000,
    "../../x", "=1+1", "0" * 400, "1" * 400,
)  # fmt: skip
"""what stands in place of a value"""
_BITS = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\r",
    b"\r\n", b"\n\n", b"\t", b'"', b"'", b",", b"{", b"[", b"}", b"]", b"<", b"&amp;", b"#", b":", b"|", b"\\",
    b"\x1b[4m", b"\x0b", b"\x85", b"\xe2\x80\xa8", b" ", b"%", b"$(x)", b"\x00" * 64, b"9" * 400, b"-", b"*",
    b"&a", b"!!python/object:x", b"\xc2\xb2", b"\xd9\xa3",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z_0-9.-]*")
_DEEP, _MANY = 100_000, 1_000_000

Mutator = Callable[[random.Random, bytes], bytes]


def mutated(draw: random.Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
    """A file like another, with one to three things wrong; one in forty is a container or of a size that no file has."""
    if data[:2] == b"\x1f\x8b" and draw.random() < 0.7:  # inside of gzip
        return gzip.compress(mutated(draw, gzip.decompress(data), others), 1, mtime=0)
    if draw.random() < 0.025:
        return draw.choice(_BOMBS)(draw, data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if draw.random() < 0.05:
            data = _splice(draw, data, draw.choice(others))
        elif draw.random() < 0.5 and (changed := structured(draw, data)) is not None:
            data = changed
        else:
            data = draw.choice(_PLAIN)(draw, data)
    return data


def _at(draw: random.Random, data: bytes) -> int:
    return draw.randrange(len(data) + 1)


def _flip(draw: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        if made:
            made[draw.randrange(len(made))] ^= 1 << draw.randrange(8)
    return bytes(made)


def _cut(draw: random.Random, data: bytes) -> bytes:
    begin = _at(draw, data)
    return (
        data[:begin]
        if draw.random() < 0.5
        else data[:begin] + data[begin + draw.choice((1, 1, 2, 4, 8, 30, 300)) :]
    )


def _repeat(draw: random.Random, data: bytes) -> bytes:
    begin = _at(draw, data)
    part = data[begin : begin + draw.choice((1, 2, 8, 40, 400))]
    return data[:begin] + part * draw.choice((2, 2, 3, 20)) + data[begin:]


def _insert(draw: random.Random, data: bytes) -> bytes:
    begin = draw.choice((0, _at(draw, data), _at(draw, data), len(data)))
    return data[:begin] + draw.choice(_BITS) + data[begin:]


def _recode(draw: random.Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(
        draw.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig", "utf-7")), "replace"
    )


def _splice(draw: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: _at(draw, data)] + other[_at(draw, other) :]


def _number(draw: random.Random, data: bytes) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return _insert(draw, data)
    match, said = draw.choice(found), draw.choice(NUMBERS).encode()
    return data[: match.start()] + said + data[match.end() :]


def _word(draw: random.Random, data: bytes) -> bytes:
    found = list(_WORD.finditer(data))
    if not found:
        return _insert(draw, data)
    match, other = draw.choice(found), draw.choice(found)
    said = draw.choice(
        (
            b"",
            b"x",
            other[0],
            match[0] * 2,
            match[0].upper(),
            match[0][:-1],
            b"A" * 5000,
            draw.choice(NUMBERS).encode(),
        )
    )
    return data[: match.start()] + said + data[match.end() :]


def _lines(draw: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    here, there = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(5)
    if kind == 0:
        del lines[here : here + draw.choice((1, 1, 3))]
    elif kind == 1:
        lines.insert(there, lines[here])
    elif kind == 2:
        lines[here], lines[there] = lines[there], lines[here]
    elif kind == 3:
        cells = re.split(rb"([,\t|; ])", lines[here])
        cells[draw.randrange(len(cells))] = draw.choice(NUMBERS).encode()
        lines[here] = b"".join(cells)
    else:
        lines[here:] = lines[here:] * 2
    return b"".join(lines)


_PLAIN: tuple[Mutator, ...] = (
    _flip,
    _cut,
    _repeat,
    _insert,
    _number,
    _number,
    _number,
    _word,
    _word,
    _lines,
    _lines,
    _recode,
)


def structured(draw: random.Random, data: bytes) -> bytes | None:
    """A text of JSON, TOML, YAML, XML or CSV with a change of its values; None for others."""
    text = data.decode("utf-8", "replace")
    first = text.partition("\n")[0]
    made: str | bytes | None = None
    with contextlib.suppress(*_UNREAD):
        if text.lstrip()[:1] in ("{", "["):
            made = _json(draw, text, first)
        elif first[:1] == "<":
            made = _xml(draw, text)
        elif re.search(r"(?m)^\[\[?[\w. \"-]+\]\]?$", text) and not text.startswith("#!"):
            made = _toml(changed(draw, tomllib.loads(text)))
        elif re.search(r"(?m)^\w+:(\s|$)", text) and not text.startswith("#!"):
            values = [changed(draw, each) for each in yaml.safe_load_all(text)]
            made = yaml.safe_dump_all(values, sort_keys=False, encoding="utf-8")
        elif first.count(",") > 1:
            made = _csv(draw, text)
    return made.encode("utf-8", "surrogatepass") if isinstance(made, str) else made


_UNREAD = (
    ValueError, RecursionError, TypeError, OverflowError, yaml.YAMLError, Xml.ParseError, csv.Error,
)  # fmt: skip


def _json(draw: random.Random, text: str, first: str) -> str:
    """One value, or one a line."""
    lines = text.splitlines()
    if 1 < len(lines) < 50 and _is_json(first):
        here = draw.randrange(len(lines))
        lines[here] = json.dumps(changed(draw, json.loads(lines[here])))
        return "\n".join(lines)
    return json.dumps(changed(draw, json.loads(text)))


def _is_json(text: str) -> bool:
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(text)
        return True
    return False


def changed(draw: random.Random, value: Any) -> Any:
    """A value of dicts and lists with one place in it changed."""
    value = json.loads(json.dumps(value, default=str))
    places: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        inside = pending.pop()
        keys = (
            list(inside)
            if isinstance(inside, dict)
            else range(len(inside))
            if isinstance(inside, list)
            else ()
        )
        for key in keys:
            places.append((inside, key))
            pending.append(inside[key])
    if not places or draw.random() < 0.02:
        return draw.choice(VALUES)
    inside, key = draw.choice(places)
    kind = draw.randrange(8)
    if kind == 0:
        del inside[key]
    elif kind == 1:
        _, other = draw.choice(places)
        if isinstance(inside, dict):
            inside[str(draw.choice((other, f"{key}x", "", "²", "x" * 300)))] = inside.pop(key)
        else:
            inside.insert(key, inside[key])
    elif kind == 2:
        other, name = draw.choice(places)
        with contextlib.suppress(ValueError, IndexError, KeyError):
            inside[key] = json.loads(json.dumps(other[name]))
    elif kind == 3 and isinstance(inside[key], (list, dict)):
        inside[key] = inside[key][::-1] if isinstance(inside[key], list) else list(inside[key].items())
    else:
        inside[key] = draw.choice(VALUES)
    return value


def _toml(table: Any) -> str:
    """A table as TOML, all of it inline."""
    if not isinstance(table, dict):
        return json.dumps(table)

    def said(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {said(each)}" for key, each in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(said, value)) + "]"
        return '"null"' if value is None else str(value) if isinstance(value, float) else json.dumps(value)

    return "\n".join(f"{json.dumps(key)} = {said(value)}" for key, value in table.items())


def _xml(draw: random.Random, text: str) -> bytes:
    root = Xml.fromstring(text)
    nodes = list(root.iter())
    node, other = draw.choice(nodes), draw.choice(nodes)
    kind = draw.randrange(5)
    if kind == 0 and node.attrib:
        node.set(
            draw.choice(list(node.attrib)),
            str(draw.choice(VALUES))[:500].replace("\0", "").replace("\ud800", ""),
        )
    elif kind == 1 and node.attrib:
        del node.attrib[draw.choice(list(node.attrib))]
    elif kind == 2:
        node.tag = other.tag
    elif kind == 3:
        for child in list(node)[:1]:
            node.remove(child)
    elif node.attrib:
        node.set(draw.choice(list(node.attrib)), draw.choice(NUMBERS))
    return Xml.tostring(root)


def _csv(draw: random.Random, text: str) -> str:
    rows = list(csv.reader(io.StringIO(text)))
    row = draw.choice(rows)
    column = draw.randrange(max(len(rows[0]), 1))
    kind = draw.randrange(5)
    if kind == 0 and row:
        row[draw.randrange(len(row))] = draw.choice(NUMBERS)
    elif kind == 1:
        for each in rows:
            del each[column : column + 1]
    elif kind == 2:
        for each in rows:
            each.insert(draw.randrange(len(rows[0]) + 1), *each[column : column + 1] or [""])
    elif kind == 3:
        rows[0][column % len(rows[0])] = draw.choice(("", "x", "²", rows[0][0], "x" * 200_000))
    else:
        for each in rows[1:]:
            each[column : column + 1] = [draw.choice(NUMBERS)]
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def _nested(draw: random.Random, data: bytes) -> bytes:
    opening, closing = draw.choice(
        (
            (b"[", b"]"),
            (b'{"a":', b"}"),
            (b"<a>", b"</a>"),
            (b"- ", b""),
            (b"a.", b"=1"),
            (b"(", b")"),
            (b"[[", b"]]"),
        )
    )
    depth = draw.choice((50, 900, 5000, _DEEP))
    deep = opening * depth + draw.choice((b"", b"1")) + closing * draw.choice((0, depth))
    if draw.random() < 0.5 and (found := list(_NUMBER.finditer(data))):
        match = draw.choice(found)
        return data[: match.start()] + deep + data[match.end() :]
    return deep


def _long(draw: random.Random, data: bytes) -> bytes:
    """A list, a text or lines of a million."""
    count = draw.choice((10_000, _MANY))
    made = draw.choice(
        (
            b"[" + b"1," * count + b"1]",
            b'"' + b"x" * count + b'"',
            b"x" * count,
            b"9" * count,
            b" " * count,
            b"\n" * count,
            b"," * count,
        )
    )
    if draw.random() < 0.5 and (found := list(_NUMBER.finditer(data))):
        match = draw.choice(found)
        return data[: match.start()] + made + data[match.end() :]
    if draw.random() < 0.5:
        last = data.rstrip().rpartition(b"\n")[2] + b"\n"
        return data + last * min(count // 100, 1 + (1 << 20) // len(last))
    return data + made


@cache
def gzip_bomb() -> bytes:
    """A megabyte that unpacks to a gibibyte."""
    return gzip.compress(b" " * (1 << 24), mtime=0) * 64


@cache
def zip_bomb() -> bytes:
    """Less than a megabyte that unpacks to 640 MiB, as an array of NumPy."""
    packed = io.BytesIO()
    head = (
        b"\x93NUMPY\x01\x00\x46\x00"
        + b"{'descr': '<i8', 'fortran_order': False, 'shape': (83886080,), }".ljust(69)
        + b"\n"
    )
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, count in (("rows-0.npy", 40), ("states-0.npy", 1)):
            with file.open(name, "w") as inner:
                inner.write(head)
                for _ in range(count):
                    inner.write(bytes(1 << 24))
    return packed.getvalue()


ALIASES = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
"""YAML whose aliases, followed, are 43 million texts"""
ENTITIES = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "lol">'
    + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    + ']><algo coll="&l9;"><system version="&l9;"/></algo>'
)
"""XML whose entities are three gigabytes"""


def _bomb(draw: random.Random, data: bytes) -> bytes:
    kind = draw.randrange(5)
    if kind == 0:
        return gzip_bomb()
    if kind == 1:
        return zip_bomb()
    if kind == 2:
        return ALIASES.encode() + (data if draw.random() < 0.5 else b"")
    if kind == 3:
        return ENTITIES.encode()
    return gzip.compress(gzip.compress(data) if draw.random() < 0.5 else data, mtime=0)[
        : draw.choice((-1, -4, -9, None))
    ]


_BOMBS: tuple[Mutator, ...] = (_nested, _nested, _long, _long, _bomb)
ODD = ("zero", "pipe", "folder", "loop", "unreadable", "missing", "null", "empty")
"""things in place of a file"""


def put_odd(kind: str, path: Path) -> Path:
    """Something that is no file of its kind, and its path."""
    if kind == "zero":
        return Path("/dev/zero")
    if kind == "null":
        return Path("/dev/null")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind in ("unreadable", "empty"):
        path.touch(0 if kind == "unreadable" else 0o644)
    return path
