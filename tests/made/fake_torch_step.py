"""Bytes of one rank's training step as PyTorch itself lays them out: fake tensors, fake ranks, no memory needed.

A model like torchtitan's Llama is trained by FSDP2, DTensor and torch.distributed.pipelining. Every storage is counted
from the op that makes it to its release, by the stream that allocates it: the caching allocator never gives one stream's
bytes to another, so that the high waters of streams add up. (torch.distributed._tools.MemTracker knows no streams, and
under a fake mode it also counts what DTensor's sharding propagation makes up, whole parameters in the optimizer among
it; a test compares the two where it can.)

`python fake_torch_step.py '[{"tp": 2, ...}]'` prints the bytes of each case on a line.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import json
import os
import sys
import weakref
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.tensor.parallel.loss as parallel_loss
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.stage import InferenceMode
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor import parallel as tp
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

SAVED = {
    torch.ops.aten.mm.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
}
SMALL = 2**20
"""B up to which tensors have a segment of their own"""
QUIET = [0]
"""depth of DTensor's propagation of shapes, whose tensors no device holds"""


def _quiet(function: Any) -> Any:
    @wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        QUIET[0] += 1
        try:
            return function(*args, **kwargs)
        finally:
            QUIET[0] -= 1

    return inner


class Arena:
    """An expandable segment of the caching allocator: the best fit, neighbours join, and its end never comes back."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []
        self.held: dict[int, tuple[int, int]] = {}
        self.end = 0

    def hold(self, key: int, size: int) -> None:
        size = -(-size // 512) * 512
        fits = [hole for hole in self.free if hole[1] >= size]
        if fits:
            start, length = hole = min(fits, key=lambda hole: hole[1])
            self.free.remove(hole)
            if length > size:
                bisect.insort(self.free, (start + size, length - size))
        else:
            reaches = bool(self.free) and sum(self.free[-1]) == self.end
            start = self.free.pop()[0] if reaches else self.end
            self.end = start + size
        self.held[key] = (start, size)

    def drop(self, key: int) -> None:
        start, size = self.held.pop(key)
        place = bisect.bisect(self.free, (start, size))
        if place < len(self.free) and self.free[place][0] == start + size:
            size += self.free.pop(place)[1]
        if place and sum(self.free[place - 1]) == start:
            before, length = self.free.pop(place - 1)
            start, size = before, size + length
        bisect.insort(self.free, (start, size))


class Tracker(TorchDispatchMode):
    """Bytes alive by stream; `high`: their high waters since it was cleared, `arenas`: what the allocator reserves."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, tuple[int, str]] = {}
        self.now: collections.Counter[str] = collections.Counter()
        self.high: collections.Counter[str] = collections.Counter()
        self.names: dict[int, str] = {}
        self.arenas: collections.defaultdict[tuple[str, bool], Arena] = collections.defaultdict(Arena)

    def hold(self, key: int, size: int) -> None:
        if not size:
            return
        current = torch.cpu.current_stream()
        own = self.names.setdefault(id(current), f"stream {len(self.names) + 1}")
        stream = "main" if current is torch.cpu._default_cpu_stream else own
        self.live[key] = (size, stream)
        self.arenas[stream, size > SMALL].hold(key, size)
        self.now[stream] += size
        self.high[stream] = max(self.high[stream], self.now[stream])

    def drop(self, key: int) -> None:
        if key in self.live:
            size, stream = self.live.pop(key)
            self.now[stream] -= size
            self.arenas[stream, size > SMALL].drop(key)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind is DTensor for kind in types):
            return NotImplemented  # its local ops come again
        waits = func is torch.ops._c10d_functional.wait_tensor.default  # a fake one would make a new tensor
        out = args[0] if waits else func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if QUIET[0] or not isinstance(tensor, torch.Tensor) or tensor.device.type == "meta":
                continue
            storage = tensor.untyped_storage()
            if storage._cdata not in self.live:
                self.hold(storage._cdata, storage.nbytes())
                weakref.finalize(storage, self.drop, storage._cdata)
        return out

    @contextlib.contextmanager
    def running(self) -> Any:
        """Count within; FSDP resizes storages, which no op shows."""
        plain = torch.UntypedStorage.resize_

        def resize(storage: Any, size: int) -> Any:
            out = plain(storage, size)
            self.drop(storage._cdata)
            self.hold(storage._cdata, size)
            return out

        torch.UntypedStorage.resize_ = resize
        try:
            with self:
                yield self
        finally:
            torch.UntypedStorage.resize_ = plain


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int, kv: int) -> None:
        super().__init__()
        self.width, self.each = hidden // heads, heads // kv
        self.wq = nn.Linear(hidden, hidden, bias=False)
        self.wk = nn.Linear(hidden, kv * self.width, bias=False)
        self.wv = nn.Linear(hidden, kv * self.width, bias=False)
        self.wo = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Any, turns: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = (w(x).view(batch, length, -1, self.width) for w in (self.wq, self.wk, self.wv))
        q, k = _turned(q, turns), _turned(k, turns)
        k, v = (
            y.unsqueeze(3).expand(-1, -1, -1, self.each, -1).reshape(batch, length, -1, self.width)
            for y in (k, v)
        )
        out = F.scaled_dot_product_attention(*(y.transpose(1, 2) for y in (q, k, v)), is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(batch, length, -1))


def _turned(x: Any, turns: Any) -> Any:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[: x.shape[1]].view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)


class FeedForward(nn.Module):
    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(hidden, ffn, bias=False)
        self.w2 = nn.Linear(ffn, hidden, bias=False)
        self.w3 = nn.Linear(hidden, ffn, bias=False)

    def forward(self, x: Any) -> Any:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int, kv: int, ffn: int) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(hidden, heads, kv), FeedForward(hidden, ffn)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)

    def forward(self, x: Any, turns: Any) -> Any:
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.feed_forward(self.ffn_norm(x))


class Part(nn.Module):
    """Some layers, with the embedding or the head where it is the first or the last part."""

    def __init__(self, case: dict[str, Any], layers: int, first: bool, last: bool) -> None:
        super().__init__()
        hidden, vocab = case["hidden"], case["vocab"]
        self.tok_embeddings = nn.Embedding(vocab, hidden) if first else None
        turns = torch.empty(case["sequence"], hidden // case["heads"] // 2, dtype=torch.complex64)
        self.register_buffer("turns", turns)
        made = [Layer(hidden, case["heads"], case["kv_heads"], case["ffn"]) for _ in range(layers)]
        self.layers = nn.ModuleDict({str(i): layer for i, layer in enumerate(made)})
        self.norm = nn.RMSNorm(hidden, eps=1e-5) if last else None
        self.output = nn.Linear(hidden, vocab, bias=False) if last else None

    def forward(self, x: Any) -> Any:
        if self.tok_embeddings is not None:
            x = self.tok_embeddings(x)
        for layer in self.layers.values():
            x = layer(x, self.turns)
        return x if self.norm is None or self.output is None else self.output(self.norm(x))


def _divide(part: Part, mesh: Any) -> None:
    """Tensor and sequence parallelism as torchtitan applies it."""
    ends: dict[str, Any] = {}
    if part.tok_embeddings is not None:
        ends["tok_embeddings"] = tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    if part.norm is not None:
        ends["norm"] = tp.SequenceParallel()
        ends["output"] = tp.ColwiseParallel(
            input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False
        )
    tp.parallelize_module(part, mesh, ends)
    column, row = tp.ColwiseParallel(), tp.RowwiseParallel(output_layouts=Shard(1))
    plan = {f"attention.{name}": column for name in ("wq", "wk", "wv")} | {"attention.wo": row}
    plan |= {"feed_forward.w1": column, "feed_forward.w3": column, "feed_forward.w2": row}
    for layer in part.layers.values():
        whole = {
            "attention_norm": tp.SequenceParallel(),
            "attention": tp.PrepareModuleInput(
                input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)
            ),
            "ffn_norm": tp.SequenceParallel(),
            "feed_forward": tp.PrepareModuleInput(
                input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
            ),
        }
        tp.parallelize_module(layer, mesh, whole | plan)


def _per_op() -> Any:
    """torchtitan's selective recomputation: every second matrix product and all but attention."""
    seen: collections.Counter[bool] = collections.Counter()

    def policy(context: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        product = func == torch.ops.aten.mm.default
        seen[context.is_recompute] += product
        keep = func in SAVED and not (product and seen[context.is_recompute] % 2 == 0)
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def _made(case: dict[str, Any], mesh: Any, layers: int, first: bool, last: bool) -> Part:
    with torch.device("meta"):
        part = Part(case, layers, first, last)
    if case["tp"] > 1:
        _divide(part, mesh["tp"])
    for name, layer in list(part.layers.items()):
        if case["recompute"] == "full":
            part.layers[name] = checkpoint_wrapper(layer, preserve_rng_state=False)
        elif case["recompute"] == "selective":
            part.layers[name] = checkpoint_wrapper(layer, context_fn=_per_op, preserve_rng_state=False)
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    piped = case["pp"] > 1
    for index, layer in enumerate(part.layers.values()):
        again = not piped and index < layers - 1
        fully_shard(layer, mesh=mesh["dp"], mp_policy=precision, reshard_after_forward=again)
    fully_shard(part, mesh=mesh["dp"], mp_policy=precision, reshard_after_forward=not piped)
    return part


def _loss(logits: Any, labels: Any) -> Any:
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


def _stages(case: dict[str, Any], parts: list[Part], group: Any) -> list[PipelineStage]:
    batch, length, hidden, count = (
        case["micro_batch"],
        case["sequence"],
        case["hidden"],
        case["pp"] * case["chunks"],
    )

    def like(*shape: int, dtype: Any = torch.bfloat16) -> Any:
        return torch.empty(*shape, dtype=dtype, device="meta")

    stages = []
    for chunk, part in enumerate(parts):
        index = case["rank"] + chunk * case["pp"]
        first, last = index == 0, index == count - 1
        states = like(batch, length // case["tp"], hidden)
        taken = like(batch, length, dtype=torch.long) if first else states.clone().requires_grad_()
        given = like(batch, length, case["vocab"]) if last else states.clone()
        gradients = {} if first else {"input_grads": states}
        gradients |= {} if last else {"output_grads": states}
        stages.append(
            PipelineStage(
                part, index, count, torch.device("cpu"), input_args=taken, output_args=given.requires_grad_(),
                group=group, **gradients,
            )
        )  # fmt: skip
    return stages


def _runner(case: dict[str, Any], parts: list[Part], mesh: Any) -> Any:
    """What runs forward and backward of a step."""
    if case["pp"] == 1:

        def plain(tokens: Any, labels: Any) -> None:
            logits = parts[0](tokens)
            loss = _loss(logits, labels)
            del logits  # as torchtitan does
            loss.backward()

        return plain
    stages = _stages(case, parts, mesh["pp"].get_group())
    kinds = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe, "interleaved": ScheduleInterleaved1F1B}
    held: Any = stages if case["chunks"] > 1 else stages[0]
    schedule = kinds[case["schedule"]](held, n_microbatches=case["micro_batches"], loss_fn=_loss)

    def voted(found: Any, *args: Any) -> None:
        for stage in found:
            stage._inference_mode = InferenceMode.STATIC  # no other rank is there to be asked

    schedule._warmup_p2p = voted

    def piped(tokens: Any, labels: Any) -> None:
        given = (tokens,) if case["rank"] == 0 else ()
        wanted = {"target": labels, "losses": []} if case["rank"] == case["pp"] - 1 else {}
        schedule.step(*given, **wanted)

    return piped


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """B of one rank: "streams", the high water of each in the second step; "reserved", what the allocator has then.

    "tracker" is MemTracker's count instead, where the case asks for it.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    sizes = (case["pp"], case["dp"], case["tp"])
    rank = case["rank"] * case["dp"] * case["tp"]
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=sizes[0] * sizes[1] * sizes[2])
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("pp", "dp", "tp"))
    last = case["pp"] * case["chunks"] - 1
    indexes = [case["rank"] + chunk * case["pp"] for chunk in range(case["chunks"])]
    parts = [_made(case, mesh, case["layers"] // (last + 1), i == 0, i == last) for i in indexes]
    tracker = Tracker()
    other = MemTracker() if case.get("tracker") else None
    with FakeTensorMode(allow_non_fake_inputs=True), other or tracker.running():
        for part in parts:
            part.to_empty(device="cpu")
        optimizers = [torch.optim.AdamW(part.parameters(), foreach=True) for part in parts]
        if other is not None:
            other.track_external(*parts, *optimizers)
        run = _runner(case, parts, mesh)
        for step in range(2):
            shape = (case["micro_batch"] * case["micro_batches"], case["sequence"])
            for optimizer in optimizers:
                optimizer.zero_grad()
            if step:
                tracker.high.clear()
                if other is not None:
                    other.reset_mod_stats()
            with tp.loss_parallel() if case["tp"] > 1 else contextlib.nullcontext():
                run(torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long))
            for optimizer in optimizers:
                if case.get("updates", True):
                    optimizer.step()
    dist.destroy_process_group()
    if other is not None:
        return {"tracker": next(iter(other.get_tracker_snapshot("peak").values()))["Total"]}
    return {"streams": dict(tracker.high), "reserved": sum(arena.end for arena in tracker.arenas.values())}


def main() -> None:
    propagator = ShardingPropagator
    propagator._propagate_tensor_meta_non_cached = _quiet(propagator._propagate_tensor_meta_non_cached)
    parallel_loss._propagate_tensor_meta = _quiet(parallel_loss._propagate_tensor_meta)
    for case in json.loads(sys.argv[1]):
        child = os.fork()  # process groups leave traces in DTensor's caches
        if child == 0:
            print(json.dumps(measure(case)), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"failed: {case}")


if __name__ == "__main__":
    main()
