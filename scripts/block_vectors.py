"""Codes of block formats as torchao makes them, for tests/learning: python scripts/block_vectors.py (needs torchao)."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

TARGET = Path(__file__).parents[1] / "tests/learning/block_vectors.json"
ELEMENTS = {
    "mxfp8": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2, "mxfp6": "fp6_e2m3", "mxfp6_e3m2": "fp6_e3m2",
    "mxfp4": torch.float4_e2m1fn_x2,
}  # fmt: skip


def made_values() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Blocks of very different size, of zeros, of powers of two, and ties."""
    generator = np.random.default_rng(22)
    values = generator.standard_normal((8, 64)) * 10.0 ** generator.integers(-25, 25, (8, 2)).repeat(32, 1)
    values[0] = 0
    values[1] = np.tile(2.0 ** np.arange(-16, 16), 2)
    values[2] = np.tile(np.arange(-16, 16) * 0.25, 2)
    return values.astype(np.float32)


def unpacked(codes: torch.Tensor) -> list[list[int]]:
    """Codes of four bits, two in a byte, the first in the lower half."""
    packed = codes.view(torch.uint8).numpy()
    return np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1).tolist()


def main() -> None:
    """Write the vectors."""
    values, cases = made_values(), []
    for name, element in ELEMENTS.items():
        for mode in ScaleCalculationMode:
            scales, codes = to_mx(torch.from_numpy(values), element, 32, mode)
            listed = unpacked(codes) if name == "mxfp4" else codes.view(torch.uint8).tolist()
            cases.append(
                {
                    "format": name,
                    "rule": mode.value,
                    "scales": scales.view(torch.uint8).tolist(),
                    "codes": listed,
                }
            )
    near = values[2:] / np.abs(values[2:]).max(1, keepdims=True)  # one tensor scale serves a narrow range
    scale = per_tensor_amax_to_scale(torch.from_numpy(near).abs().max())
    scales, codes = nvfp4_quantize(torch.from_numpy(near), 16, scale)
    nvfp4 = {
        "values": near.tolist(), "tensor_scale": float(scale), "scales": scales.view(torch.uint8).tolist(),
        "codes": unpacked(codes),
    }  # fmt: skip
    made = {"by": f"torchao {version('torchao')}", "values": values.tolist(), "cases": cases, "nvfp4": nvfp4}
    TARGET.write_text(json.dumps(made, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
