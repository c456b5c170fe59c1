"""Requests that no page sends: broken JSON, wrong types, paths, bombs, HTML, odd headers; the same for the same seed."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field

HOSTILE = (
    "../../etc/passwd", "..", "/etc/passwd", "~root/.bashrc", "file:///etc/passwd", "C:\\windows",
    "<script>alert(1)</script>",
    "'; DROP TABLE runs; --", "$(reboot)", "`id`", "\u0000", "\u202egpt2", "A" * 5000, "1e999", "NaN", "-1", "0x10",
    "upload:0", "upload:../../x", "__class__", "constructor", "%2e%2e%2f", "\ud800", "😀" * 50, "dgx-h100:" + "9" * 40,
    "gpt2\r\nSet-Cookie: a=b",
)  # fmt: skip
VALUES = (
    None,
    True,
    -1,
    0,
    1e308,
    -1e-308,
    10**40,
    3.5,
    [],
    {},
    [[]],
    {"a": {"b": 1}},
    ["x"] * 1000,
    "",
    " ",
)
NAMES = (
    "model",
    "on",
    "tp",
    "pp",
    "gpus",
    "batch",
    "overrides",
    "limit",
    "tokens",
    "price",
    "detail",
    "__proto__",
    "save",
    "plan",
    "x",
)


@dataclass(frozen=True)
class Malformed:
    """One request."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def malformed_requests(seed: int, count: int, questions: tuple[str, ...]) -> Iterator[Malformed]:
    """A number of requests to some questions, and to what is none."""
    chance = random.Random(seed)
    makers = (_options, _options, _options, _bytes, _file, _path, _headers, _nested)
    for _ in range(count):
        yield chance.choice(makers)(chance, f"/api/{chance.choice(questions)}")


def _options(chance: random.Random, path: str) -> Malformed:
    asked = {"model": "gpt2", "on": "dgx-h100"}
    for _ in range(chance.randint(1, 4)):
        asked[chance.choice(NAMES)] = chance.choice((*VALUES, *HOSTILE))
    return Malformed("POST", path, json.dumps(asked).encode("utf-8", "surrogatepass"))


def _bytes(chance: random.Random, path: str) -> Malformed:
    body = chance.choice(
        (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model":', b'{"a":1}' * 9, b"\0" * 999, b'{"tp": NaN}')
    )
    return Malformed("POST", path, body + chance.randbytes(chance.randint(0, 40)))


def _nested(chance: random.Random, path: str) -> Malformed:
    depth = chance.choice((10, 1000, 100_000))
    return Malformed("POST", path, b'{"model": ' + b"[" * depth + b"]" * depth + b"}")


def _file(chance: random.Random, path: str) -> Malformed:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../config.json", b"0" * 10**5)
    content = chance.choice(
        (
            packed.getvalue(),
            gzip.compress(b"0" * 10**6),
            b"[" * 10**5,
            b"{}",
            b'{"model_type": "llama"}',
            chance.randbytes(99),
        )
    )
    name = chance.choice(("config.json", "..%2F..%2Fx", "%00", "a" * 3000, "%3Cb%3E.json", "", "CON"))
    return Malformed(
        "POST", f"/api/files?name={name}&kind={chance.choice(('config', 'trace', 'x', ''))}", content
    )


def _path(chance: random.Random, path: str) -> Malformed:
    odd = ("/static/..%2f..%2fguard.py", "/static/%2e%2e/guard.py", "/static/", "/api/", "/api/predict/", "/x" * 500,
           "/api/%00", "/api/files/..%2f..", "//evil.example/", "/static/app.js%00", "/?token=x",
           f"{path}?{'a=b&' * 500}")  # fmt: skip
    return Malformed(
        chance.choice(("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH")), chance.choice(odd)
    )


def _headers(chance: random.Random, path: str) -> Malformed:
    odd = ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Content-Encoding": "gzip"},
           {"Cookie": "podsim_session=../.."}, {"Content-Type": "text/html"}, {"Sec-Fetch-Site": "cross-site"},
           {"Accept": "text/event-stream"}, {"Host": ""},
           {"Cookie": "a" * 5000}, {"X-Forwarded-Host": "evil"}, {"Range": "bytes=0-9999999999"})  # fmt: skip
    return Malformed("POST", path, b'{"model": "nothing", "on": "nowhere"}', dict(chance.choice(odd)))
