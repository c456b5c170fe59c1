"""Time products, attention and steps of small models on the GPU at hand, as rows that `podsim validate --rows` reads.

    python scripts/gpu_rows.py --plan kernels.csv steps.csv      # the rows alone, each of 1 ms or 1 s: to predict first
    python scripts/gpu_rows.py kernels.csv steps.csv             # measured, with PyTorch

Each kernel runs on random numbers, on inputs that rotate so that the cache does not hold them, and is timed by CUDA
events around a captured graph of calls; the median of some repetitions counts. A step is forward, backward and
optimizer of a Llama in transformers, with weights in fp32 and bf16 by autocast, without compilation.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

SHAPES = (
    *((size, size, size) for size in (1024, 2048, 3072, 8192)),
    *((tokens, n, k) for tokens in (16, 128, 1024, 4096, 16384) for n, k in
      ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))),
    (4096, 128256, 4096), (3000, 5000, 7000), (1, 28672, 4096), (8192, 1536, 7168), (8192, 7168, 2048),
)  # fmt: skip
"""m, n, k: squares, the linear layers of a model of 8 B at decoding and training, and sizes of no power of two"""
FORMATS = {
    "bf16": SHAPES,
    "fp16": SHAPES[:4],
    "fp8": SHAPES,
    "tf32": SHAPES[:4],
    "fp32": SHAPES[:3],
    "fp64": SHAPES[:3],
}
ATTENTION = (
    (4, 32, 32, 2048, 128), (2, 32, 32, 8192, 128), (4, 32, 8, 4096, 128), (8, 16, 16, 2048, 64), (2, 64, 8, 4096, 128),
    (1, 40, 40, 4096, 80), (1, 16, 16, 16384, 128),
)  # fmt: skip
"""batch, heads, key heads, tokens, width of a head"""
STEPS = (
    (8, 2048, 8192, 2048, 1), (8, 2048, 8192, 2048, 4), (16, 2048, 8192, 4096, 1), (16, 2048, 8192, 4096, 4),
    (16, 2048, 8192, 8192, 2), (4, 4096, 14336, 4096, 4),
)  # fmt: skip
"""layers, hidden, inner, tokens, batch; of 32 heads and 8 of keys"""
VOCAB = 32000
REPEATS = 7


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plan", action="store_true", help="measure nothing")
    parser.add_argument("kernels", type=Path)
    parser.add_argument("steps", type=Path)
    parser.add_argument("--device", default="h100-sxm5-80gb", help="the GPU's name in the catalog")
    asked = parser.parse_args()
    torch = None
    source = "planned"
    if not asked.plan:
        import torch  # type: ignore[no-redef]

        of = torch.cuda.get_device_properties(0)
        source = f"{of.name}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    common = {"role": "test", "source": source, "path": "scripts/gpu_rows.py"}
    common |= dict.fromkeys(("gpu", "device"), asked.device)
    _write(asked.kernels, [common | row for row in _kernel_rows(torch)])
    _write(asked.steps, [common | row for row in _step_rows(torch, asked.device)])


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _kernel_rows(torch: Any) -> Iterator[dict[str, Any]]:
    for precision, shapes in FORMATS.items():
        for m, n, k in shapes:
            make = partial(_product, torch, precision, m, n, k)
            seconds = _timed(torch, make, (m * k + n * k) * 4) if torch else 1e-3
            if seconds:
                yield {"id": f"{precision}-{m}x{n}x{k}", "op": "gemm", "kernel": "gemm", "m": m, "n": n, "k": k,
                       "dtype": precision, "precision": precision, "latency_ms": f"{seconds * 1e3:.6g}"}  # fmt: skip
    for shape in ATTENTION:
        for causal in (False, True):
            for kernel in ("flash2", "cudnn"):
                for direction in ("fwd", "fwd+bwd"):
                    seconds = _attention_seconds(torch, shape, causal, kernel, direction) if torch else 1e-3
                    if seconds:
                        batch, heads, keys, tokens, width = shape
                        name = f"{kernel}-{'x'.join(map(str, shape))}-{causal:d}-{direction}"
                        yield {"id": name, "op": f"attention {kernel}",
                               "kernel": kernel if kernel != "cudnn" else "flash3", "batch": batch, "heads": heads,
                               "kv_heads": keys, "seq_len": tokens, "head_dim": width,
                               "causal": "yes" if causal else "no", "direction": direction,
                               "dtype": "bf16", "precision": "bf16", "latency_ms": f"{seconds * 1e3:.6g}"}  # fmt: skip


def _product(torch: Any, precision: str, m: int, n: int, k: int) -> Callable[[], Any]:
    """A call of one product with inputs of its own."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}.get(
        precision, torch.float32
    )
    a, b = torch.randn(m, k, device="cuda"), torch.randn(n, k, device="cuda")
    if precision == "fp8":
        a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    a, b = a.to(kind), b.to(kind).t()
    out = torch.empty(m, n, device="cuda", dtype=kind)
    return lambda: torch.mm(a, b, out=out)


def _attention_seconds(
    torch: Any, shape: tuple[int, ...], causal: bool, kernel: str, direction: str
) -> float:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch, heads, keys, tokens, width = shape
    backward = direction != "fwd"

    def make() -> Callable[[], Any]:
        q, k, v = (torch.randn(batch, count, tokens, width, device="cuda", dtype=torch.bfloat16, requires_grad=backward)
                   for count in (heads, keys, keys))  # fmt: skip
        upstream = torch.randn_like(q)

        def call() -> None:
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=heads != keys
            )
            if backward:
                torch.autograd.grad(out, (q, k, v), upstream)

        return call

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION if kernel == "flash2" else SDPBackend.CUDNN_ATTENTION):
        return _timed(torch, make, 2 * batch * tokens * width * (heads + 2 * keys), is_captured=not backward)


def _timed(torch: Any, make: Callable[[], Callable[[], Any]], size: float, is_captured: bool = True) -> float:
    """s of one call, or 0 where the GPU's library refuses it; `size`: B of its inputs."""
    try:
        calls = [make() for _ in range(max(2, min(8, int(2e8 / size) + 1)))]
        count = len(calls)
        for call in calls:
            call()
        torch.cuda.synchronize()
        first = _events(torch, calls[0])
        rounds = max(1, min(50, int(0.01 / max(first * count, 1e-7))))

        def play() -> None:
            for _ in range(rounds):
                for call in calls:
                    call()

        if is_captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                play()
            play = graph.replay
        play()
        return median(_events(torch, play) for _ in range(REPEATS)) / (rounds * count)
    except RuntimeError as problem:
        print(f"not run: {str(problem).splitlines()[0][:110]}", file=sys.stderr)
        return 0.0


def _events(torch: Any, call: Callable[[], Any]) -> float:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    call()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) * 1e-3


def _step_rows(torch: Any, device: str) -> Iterator[dict[str, Any]]:
    for layers, hidden, inner, tokens, batch in STEPS:
        seconds, memory = _step(torch, layers, hidden, inner, tokens, batch) if torch else (1.0, 1e9)
        yield {"id": f"llama-{layers}x{hidden}-{batch}x{tokens}", "n_gpus": 1, "seq_len": tokens, "global_batch": batch,
               "network": f"llama-7b layers={layers} hidden={hidden} heads=32 kv_heads=8 ffn={inner} "
                          f"vocab={VOCAB} sequence={tokens}",
               "cluster": "dgx-h100:1", "plan": f"micro_batch={batch} global_batch={batch} software=pytorch-fsdp",
               "step_time_s": f"{seconds:.6g}", "memory_gb": f"{memory / 1e9:.6g}"}  # fmt: skip


def _step(torch: Any, layers: int, hidden: int, inner: int, tokens: int, batch: int) -> tuple[float, float]:
    """(s of a step, B that PyTorch had allocated at most)."""
    import transformers

    torch.cuda.empty_cache()
    config = transformers.LlamaConfig(
        hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=VOCAB, max_position_embeddings=tokens, use_cache=False,
        attn_implementation="sdpa",
    )  # fmt: skip
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = torch.randint(VOCAB, (batch, tokens), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=data, labels=data).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    torch.cuda.reset_peak_memory_stats()
    seconds = median(_events(torch, step) for _ in range(REPEATS))
    peak = float(torch.cuda.max_memory_allocated())
    print(
        f"{layers} layers of {hidden}, {batch} x {tokens}: {seconds:.4g} s, {peak / 1e9:.4g} GB",
        file=sys.stderr,
    )
    return seconds, peak


if __name__ == "__main__":
    main()
