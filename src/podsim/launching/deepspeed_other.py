"""Settings of DeepSpeed that change a step and that no plan has: refused, or reported as not counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.launching.job import ADAM_ALONE, NO_OFFLOAD
from podsim.workload.specification import shown

_ADAM = ("adam", "adamw", "fusedadam", "torchadam")
_ZERO = {
    "zero_hpz_partition_size": "weights are gathered over all data-parallel ranks",
    "zero_quantized_weights": "weights are gathered in 16 bits",
    "zero_quantized_gradients": "gradients are reduced in the bytes that their software takes",
    "mics_shard_size": "weights are divided over all data-parallel ranks",
    **dict.fromkeys(("offload_optimizer", "offload_param", "cpu_offload"), NO_OFFLOAD),
}
_OTHERS = {
    "communication_data_type": "gradients are reduced in the bytes that their software takes",
    "compression_training": "all weights are trained as they are",
    "curriculum_learning": "every sequence has the full length",
    "data_efficiency": "every sequence has the full length",
    "progressive_layer_drop": "every step has all layers",
}


def read_others(raw: Mapping[str, Any], zero: Mapping[str, Any], problems: list[str]) -> dict[str, str]:
    """The keys that are not in the plan, with the reason; what makes the file no plan is added to `problems`.

    `zero` is its zero_optimization.
    """
    saved = _table(raw, "activation_checkpointing")
    if saved.get("cpu_checkpointing") is True:
        problems.append(f"activation_checkpointing.cpu_checkpointing: {NO_OFFLOAD}")
    ulysses = raw.get("sequence_parallel_size", 1)
    if ulysses not in (1, "auto"):
        problems.append(
            f"sequence_parallel_size = {shown(ulysses)}: it divides sequences by all-to-all, a plan by a ring"
        )
    settings = {f"zero_optimization.{key}": (zero.get(key), text) for key, text in _ZERO.items()}
    settings |= {key: (raw.get(key), text) for key, text in _OTHERS.items()}
    uncounted = {
        key: f"{key} = {shown(value)} is not counted: {text}"
        for key, (value, text) in settings.items()
        if _on(value)
    }
    kind = _table(raw, "optimizer").get("type", "Adam")
    if str(kind).lower() not in _ADAM:
        uncounted["optimizer"] = f"optimizer.type = {shown(kind)} {ADAM_ALONE}"
    kept = _table(raw, "data_types").get("grad_accum_dtype")
    if kept not in (None, "fp32"):
        uncounted["data_types"] = (
            f"data_types.grad_accum_dtype = {shown(kept)} is not counted: gradients are kept in the bytes that their "
            "software takes"
        )
    if saved.get("partition_activations") is True:
        uncounted["activation_checkpointing"] = (
            "activation_checkpointing.partition_activations is not counted: saved activations are taken to be whole "
            "on every rank"
        )
    return uncounted


def _table(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def _on(value: object) -> bool:
    """Whether a setting does anything: not off, none, a size of one, or a table that is not enabled."""
    if isinstance(value, dict):
        is_enabled = value.get("enabled", value.get("device", "cpu") not in ("none", None))
        return bool(value) and is_enabled is not False
    return value not in (None, False, 0, 1, -1, "fp32", "auto") or value is True
