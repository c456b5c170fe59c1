"""Fine-tuning for real: frozen weights, and LoRA's products beside the linear layers of a GPT.

Adapters stand on the linear layers themselves, under the names lora_a and lora_b, and a hook adds what they give. So
the frozen weights are those of the network that the seed draws, name by name. LoRA (Hu et al. 2021, arXiv 2106.09685,
section 4.1): B starts at zero, A is random, and their product is scaled by alpha / rank; alpha is twice the rank here.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from typing import Any

from podsim.lab.wires import load_torch
from podsim.workload.finetuning import read_training

_SCALE = 2.0
"""factor. alpha / rank."""


def tuning_problems(training: str, layers: int, *, is_divided: bool, has_checkpoint: bool) -> list[str]:
    """Why a GPT with this many layers cannot be fine-tuned this way: one sentence for each reason."""
    if str(training).startswith("dpo"):
        return [
            f"train={training}: preference training is predicted only; train one of full, lora:RANK, frozen:LAYERS"
        ]
    kind, number = read_training(training)
    problems = []
    if kind == "qlora":
        problems.append(f"train={training}: 4-bit weights are predicted only; take lora:{number}")
    if kind == "frozen" and number >= layers:
        problems.append(f"train={training}: the network has {layers} layers; freeze fewer of them")
    if kind != "full" and is_divided:
        problems.append(f"train={training} is for whole networks: tp=1, pp=1, zero 0 or 1, --exchange bsp")
    if kind != "full" and has_checkpoint:
        problems.append(
            f"train={training} with --checkpoint: checkpoints are of networks that are trained in full"
        )
    return problems


def freeze(module: Any, training: str, *, seed: int) -> None:
    """Freeze what is not trained of a whole network, and add the adapters."""
    kind, number = read_training(training)
    if kind == "full":
        return
    if kind == "lora":
        module.requires_grad_(False)
        for name, linear in module.layers.named_modules():
            if hasattr(linear, "in_features"):
                _adapt(linear, f"layers.{name}", number, seed)
        return
    frozen = [module.layers[str(k)] for k in range(number)] + [module.tokens, module.positions]
    for part in frozen:
        if part is not None:
            part.requires_grad_(False)


def _adapt(linear: Any, name: str, rank: int, seed: int) -> None:
    """Two products beside a linear layer; nothing is added at first, since the second is zero."""
    torch = load_torch()
    draws = torch.Generator().manual_seed((seed << 32) + zlib.crc32(f"{name}.lora_a".encode()))
    inner = torch.empty(rank, linear.in_features).normal_(0.0, linear.in_features**-0.5, generator=draws)
    linear.lora_a = torch.nn.Parameter(inner)
    linear.lora_b = torch.nn.Parameter(torch.zeros(linear.out_features, rank))
    linear.register_forward_hook(_adapted)


def _adapted(linear: Any, given: tuple[Any, ...], output: Any) -> Any:
    times = getattr(linear, "times", load_torch().matmul)
    inner = times(given[0].flatten(0, -2), linear.lora_a.T)
    return output + _SCALE * times(inner, linear.lora_b.T).view(output.shape)


def frozen_digest(modules: Iterable[Any]) -> str:
    """A digest of every bit of the frozen weights; empty if none are."""
    digest, count = hashlib.sha256(), 0
    for module in modules:
        for _, parameter in module.named_parameters():
            if not parameter.requires_grad:
                digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
                count += 1
    return digest.hexdigest() if count else ""


def held_bytes(modules: Iterable[Any], moments: Any) -> dict[str, float]:
    """B of weights, gradients and optimizer that this rank holds, tensor by tensor."""
    parameters = [parameter for module in modules for parameter in module.parameters()]
    states = [] if moments is None else [state for each in moments.state.values() for state in each.values()]
    return {
        "weights": float(sum(p.numel() * p.element_size() for p in parameters)),
        "gradients": float(
            sum(p.grad.numel() * p.grad.element_size() for p in parameters if p.grad is not None)
        ),
        "optimizer": float(sum(s.numel() * s.element_size() for s in states if hasattr(s, "element_size"))),
        "trained": float(sum(p.numel() for p in parameters if p.requires_grad)),
        "frozen": float(sum(p.numel() for p in parameters if not p.requires_grad)),
    }
