"""Any result as JSON or CSV: numbers as numbers, in SI."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

from podsim.quoting import cell_text, whole


def plain_value(value: Any) -> Any:
    """The value as dicts, lists, numbers and text; a number that is not finite becomes None.

    An answer with `shown_fields` says itself what its data are. A field marked `optional` answers a question that not
    every user asks; while it is None it is left out.
    """
    if isinstance(value, (str, int, float)) or value is None:
        return None if isinstance(value, float) and not math.isfinite(value) else value
    if is_dataclass(value) and not isinstance(value, type):
        own = getattr(value, "shown_fields", lambda: _shown_fields(value))
        return {name: plain_value(item) for name, item in own().items()}
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_value(item) for item in value]
    if hasattr(value, "tolist"):  # an array of numpy, or one number of it
        return plain_value(value.tolist())
    return str(value)


def _shown_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, without the optional ones that are empty."""
    named = [(field, getattr(value, field.name)) for field in fields(value)]
    return {
        field.name: item for field, item in named if item is not None or not field.metadata.get("optional")
    }


def to_json(value: Any) -> str:
    """JSON text of any result."""
    return json.dumps(plain_value(value), indent=2, allow_nan=False)


def to_csv(value: Any) -> str:
    """CSV text: one line a row of a list, a ranking or a sheet, else one line; nested names joined by dots."""
    rows = flat_lines(value)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines: list[str] = []
    out = SimpleNamespace(
        write=lambda line: lines.append(line.removesuffix("\r\n"))
    )  # which quotes a lone \r, too
    writer = csv.DictWriter(out, fieldnames=columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return whole("".join(f"{line}\n" for line in lines))


def flat_lines(value: Any) -> list[dict[str, Any]]:
    """The lines of `to_csv` as plain values by column."""
    return [_flatten(row) for row in _rows(plain_value(value))]


def _rows(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [row if isinstance(row, dict) else {"value": row} for row in value]
    if "ranked" in value:
        return [
            {"rank": r["rank"], **_scalars(r["prediction"]), "reason": r["reason"]} for r in value["ranked"]
        ]
    if "plan" in value and "model" in value:
        return [_scalars(value)]
    if "sections" in value:
        return [{"section": s["title"], **row} for s in value["sections"] for row in s["rows"]]
    return [value]


def _scalars(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """A prediction as one line: the plan's fields by their own names, lists left to JSON."""
    plan = prediction["plan"]
    rest = {key: item for key, item in prediction.items() if key != "plan" and not isinstance(item, list)}
    return {**{key: rest.pop(key) for key in ("model", "cluster", "gpus")}, **plan, **rest}


def _flatten(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{prefix}{key}" if prefix else cell_text(str(key))
        if isinstance(value, dict):
            out |= _flatten(value, f"{name}.")
        elif isinstance(value, list):
            out[name] = cell_text(
                "; ".join(str(item) for item in value if not isinstance(item, (dict, list)))
            )
        else:
            out[name] = cell_text(value) if isinstance(value, str) else value
    return out
