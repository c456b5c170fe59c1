"""A timeline as one self-contained HTML page to zoom into; spans travel as packed arrays."""

from __future__ import annotations

import base64
import gzip

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from podsim.answers.timeline import Timeline
from podsim.errors import TimelineError
from podsim.quoting import script_json
from podsim.report.theme import render_page
from podsim.timeline.gantt import length_text
from podsim.timeline.kind_colours import colours
from podsim.timeline.trace_rows import argument_columns, rows_of

_TYPES = {
    "u1": "Uint8Array",
    "u2": "Uint16Array",
    "u4": "Uint32Array",
    "i4": "Int32Array",
    "f8": "Float64Array",
}


def gantt_page(timeline: Timeline, *, title: str = "") -> str:
    """HTML of a timeline: wheel and keys zoom, dragging moves, a span under the pointer says what it is.

    Lanes on which spans overlap have further rows. Spans narrower than a pixel are mixed in proportion to what they
    cover. A million spans make a page of some 20 MB. Raises TimelineError for a timeline without a span.
    """
    if not len(timeline):
        raise TimelineError("the timeline holds no span; there is nothing to draw")
    title = title or "Timeline"
    described, packed = gantt_data(timeline)
    described["title"] = title
    return render_page(
        "gantt.html", package="podsim.timeline", title=title,
        size=f"{len(timeline):,} spans on {len(timeline.lanes):,} lanes in {length_text(timeline)}",
        described=Markup(script_json(described)), packed=Markup(packed),
    )  # fmt: skip


def gantt_data(timeline: Timeline) -> tuple[dict[str, object], str]:
    """The input of the page's script: a description, and all arrays, packed one after the other."""
    rows = rows_of(timeline)
    order = rows.order
    arrays: dict[str, NDArray[np.generic]] = {
        "start": timeline.start[order],
        "end": timeline.end[order],
        "first": np.searchsorted(rows.row, np.arange(len(rows.lane) + 1)).astype("<u4"),
        "name": timeline.name[order].astype("<u2" if len(timeline.names) < 1 << 16 else "<u4"),
        "kind": timeline.kind[order].astype("<u1" if len(timeline.kinds) < 1 << 8 else "<u2"),
    }
    words: dict[str, list[str]] = {}
    for name, values in argument_columns(timeline).items():
        key = f"argument {name}"
        if values.dtype.kind == "U":
            distinct, word = np.unique(values, return_inverse=True)
            words[name], arrays[key] = distinct.tolist(), word[order].astype("<u4")
        else:
            is_small = values.dtype.kind == "i" and np.all(np.abs(values.astype(np.int64)) < 2**31)
            arrays[key] = values[order].astype("<i4" if is_small else "<f8")
    for index, counter in enumerate(timeline.counters):
        arrays[f"counter {index} time"], arrays[f"counter {index} value"] = counter.time, counter.value
    colour = colours(timeline.kinds)
    offsets, packed = _pack_arrays(arrays)
    described: dict[str, object] = {
        "rows": [
            {"process": timeline.lanes[lane].process, "name": name}
            for lane, (_, _, name) in zip(rows.lane, rows.threads, strict=True)
        ],
        "names": timeline.names,
        "kinds": [{"name": kind, "colour": colour[kind]} for kind in timeline.kinds],
        "busy": timeline.busy().tolist(),
        "words": words,
        "counters": [{"name": c.name, "process": c.process, "unit": c.unit} for c in timeline.counters],
        "arrays": offsets,
    }
    return described, packed


def _pack_arrays(arrays: dict[str, NDArray[np.generic]]) -> tuple[dict[str, tuple[str, int, int]], str]:
    """The position of each array (type, byte, length), and all arrays as base64 of gzip, aligned to 8 bytes."""
    places: dict[str, tuple[str, int, int]] = {}
    parts: list[bytes] = []
    at = 0
    for name, values in arrays.items():
        held = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
        places[name] = (_TYPES[values.dtype.str[1:]], at, len(values))
        padded = held + b"\0" * (-len(held) % 8)
        parts.append(padded)
        at += len(padded)
    squeezed = gzip.compress(b"".join(parts), compresslevel=3, mtime=0)
    return places, base64.b64encode(squeezed).decode("ascii")
