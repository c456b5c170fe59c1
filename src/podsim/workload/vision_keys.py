"""The encoder of images of a multimodal config.json, as a Transformer of its own."""

from __future__ import annotations

from dataclasses import replace

from podsim.errors import ModelError
from podsim.workload.config_json import Config
from podsim.workload.family_table import class_defaults, pass_over, read_fields, read_table, read_value
from podsim.workload.specification import LIMITS, Transformer, resolve

_IMAGE = 1024
"""tokens. The patches of an image where the config names no size."""


def read_vision(c: Config, text_hidden: int) -> tuple[Transformer | None, str]:
    """The encoder in `vision_config`, and what was assumed of it; None where there is none.

    Its `sequence` is the patches of one image, its `extras` are the patch projection, then what joins it to the
    language model, whose names begin with "merge".
    """
    raw = c.value("vision_config")
    if not isinstance(raw, dict) or not raw:
        return None, ""
    kind = str(raw.get("model_type") or c.value("model_type") or "")[:60]
    rows = read_table("vision.toml")
    family = rows.get(kind) or rows["ordinary"]
    known = class_defaults().get(kind) or class_defaults().get(f"{kind}_vision", {})
    v = replace(c, raw=raw, defaults=known, prefix="vision_config.", problems=[])
    joint = {key: c.value(key) for key in ("spatial_merge_size", "merge_kernel_size") if key in c.raw}
    v = v.having({**joint, **raw})
    v = v.having(_derived_sizes(v, text_hidden))
    pass_over(v, family)
    fields = read_fields(v, family.fields)
    merge = read_value(v, "extras", family.fields["merge"])
    plain = read_value(v, "head_plain", family.fields["merge_plain"])
    widths = (text_hidden, fields["hidden"])
    for part in (c, v):
        part.read.update(f"{part.prefix}{key}" for key, value in part.raw.items() if value in widths)
    tables = read_value(v, "positions", family.fields["positions"])
    patches = fields.get("extras", ())
    outside = int(fields.pop("plain", 0)) + plain + tables * fields["hidden"]
    if v.problems:
        return None, f"the encoder of images is left out: {v.problems[0]}"
    spec = Transformer(
        name="vision", source="", vocab=1, sequence=v.raw["patches"], bidirectional=True,
        **(fields | {"positions": 0, "head_plain": min(outside, LIMITS["head_plain"])}),
    )  # fmt: skip
    merged = tuple((f"merge_{name}", inner, outer) for name, inner, outer in merge)
    exact = "" if kind in rows else f"vision_config {kind!r} is not known: read as an ordinary encoder"
    try:
        resolved = resolve(replace(spec, extras=()))
    except ModelError as error:
        return None, f"the encoder of images is left out: {error}"
    return replace(resolved, extras=(*patches, *merged)), exact


def _derived_sizes(v: Config, text_hidden: int) -> dict[str, int]:
    """The sizes that configs state together, or not at all."""
    hidden = v.integer("hidden", "embed_dim", "hidden_size", "width", "vt_hidden_size")
    patch = _side(v, "patch_size", 16)
    side = max(1, _side(v, "image_size", 0) // max(patch, 1))
    merge = _side(v, "spatial_merge_size", 0) or _side(v, "merge_kernel_size", 1)
    elements = patch * patch * v.integer("hidden", "in_channels", "num_channels", "in_chans", default=3)
    elements *= v.integer("hidden", "temporal_patch_size", default=1)
    patches = side * side if side > 1 else _IMAGE
    deepstack = len(v.items("deepstack_visual_indexes"))
    return {
        "text_hidden": text_hidden, "merge_area": merge * merge, "merged": min(hidden * merge * merge, LIMITS["ffn"]),
        "deepstack": deepstack, "patches": min(patches, LIMITS["sequence"]),
        "patch_elements": min(elements, LIMITS["hidden"]),
    }  # fmt: skip


def _side(v: Config, name: str, default: int) -> int:
    """A number, or the first of a list of two."""
    value = v.value(name)
    if isinstance(value, list):
        value = value[0] if value else default
    return value if type(value) is int and 0 < value < 2**20 else default
