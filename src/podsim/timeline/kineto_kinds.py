"""The kind of a kernel by its name: rules in order, and the first that matches decides.

The rules cover profiles of PyTorch 1.9 to 2.9: cuBLAS and CUTLASS, cuDNN, FlashAttention, PyTorch's own kernels,
Triton from torch.compile, Apex and Transformer Engine, NCCL, and the driver's copies. They also cover aten ops of traces
without a GPU. A name that no rule matches is "other", and the report gives its share of the time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

RULES: tuple[tuple[str, str], ...] = (
    ("all-reduce", r"nccl.*all_?reduce|c10d::.*allreduce|rccl.*allreduce"),
    ("all-gather", r"nccl.*all_?gather|c10d::.*allgather"),
    ("reduce-scatter", r"nccl.*reduce_?scatter|c10d::.*reduce_scatter"),
    ("all-to-all", r"nccl.*all_?to_?all|c10d::.*alltoall|deep_?ep|(internode|intranode)::(dispatch|combine)"),
    ("broadcast", r"nccl.*broadcast|c10d::.*broadcast"),
    ("send-recv", r"nccl.*send_?recv|nccl.*(send|recv)|c10d::.*(send|recv)"),
    ("reduce", r"nccl.*reduce"),
    ("communication", r"nccl|nvshmem|gloo|rccl|symm_?mem|one_shot_all_reduce|two_shot_all_reduce"),
    ("memcpy", r"^memcpy|^copy (h2d|d2h|d2d)|cudamemcpy"),
    ("memset", r"^memset"),
    ("optimizer", r"adam|multi_tensor_apply|fused_?sgd|lamb_|_foreach|l2norm|optimizer|distributed_fused"),
    ("attention", r"flash|fmha|attention|attn|softmax_warp|scaled_dot_product|scaled_(upper_triang_)?masked_softmax"),
    ("convolution", r"conv(?!ert)|wgrad2d|dgrad2d|winograd|implicit_gemm|im2col|cudnn.*(fprop|dgrad|wgrad)"),
    ("gemm", r"gemm|gemv|cutlass|cublas|xmma|s\d+816|\bnvjet|splitk|triton_(tem|mm)|"
     r"mmbackward|aten::(addmm|mm|bmm|matmul|linear|baddbmm)\b"),
    ("norm", r"layer_?norm|rms_?norm|batch_?norm|bn_fw|bn_bw|group_?norm|\bln_(fwd|bwd)|_norm_|cucompute|gammabeta"),
    ("loss", r"nll_loss|cross_?entropy|log_?softmax|softmax"),
    ("embedding", r"embedding|index_?(select|add|put)|gather|scatter|indexing|index"),
    ("rope", r"rope|rotary"),
    ("pooling", r"pool"),
    ("sort", r"sort|topk|radix|scan|cumsum|bincount|permute|unpermute|moe_"),
    ("dropout", r"dropout|philox|bernoulli"),
    ("reduction", r"reduce_kernel|triton_(per|red)_|aten::(sum|mean|norm)\b|reduction"),
    ("transpose", r"transpose|catarray|cat_|nchwtonhwc|nhwctonchw|aten::(cat|transpose|contiguous|clone)\b"),
    ("elementwise", r"elementwise|vectorized|unrolled|pointwise|triton_poi_|gelu|silu|swiglu|relu|cast|fill|copy|"
     r"aten::(add|mul|div|sub|relu|gelu|silu|copy|fill|zero|to|tanh|sigmoid|neg|threshold)"),
    ("fused", r"^triton_"),
)  # fmt: skip
"""The kinds and the patterns of their names, ignoring case."""
COLLECTIVES = frozenset({
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send-recv", "reduce", "communication",
})  # fmt: skip
"""The kinds that communicate."""
ARITHMETIC = frozenset({
    "optimizer", "attention", "convolution", "gemm", "norm", "loss", "embedding", "rope", "pooling", "sort", "dropout",
    "reduction", "transpose", "elementwise", "fused", "other",
})  # fmt: skip
"""The kinds that compute: communication can hide behind them."""

_GROUPS = (
    ("tp", r"tensor|\btp\b|_tp\b|\btp_|mesh_tp|sequence_parallel"), ("pp", r"pipe|\bpp\b|_pp\b|\bpp_|embedding"),
    ("dp", r"data|\bdp\b|_dp\b|\bdp_|fsdp|shard|replicate|ddp"), ("cp", r"context|\bcp\b|_cp\b|\bcp_"),
    ("ep", r"expert|\bep\b|_ep\b|\bep_"),
)  # fmt: skip


@cache
def kind_of(name: str, collective: str = "") -> str:
    """Kind of a kernel, a copy or an op, by its name: the first of RULES that matches, or "other".

    `collective` is the profile's "Collective name", for NCCL kernels that run several collectives.
    """
    kind = next((kind for kind, pattern in RULES if re.search(pattern, name, re.IGNORECASE)), "other")
    return kind_of(f"nccl {collective}") if kind == "communication" and collective else kind


def parallelism_of(kind: str, arguments: Mapping[str, object]) -> str:
    """The parallelism of a collective (tp, pp, dp, cp, ep), from its process group's name; else "communication".

    PyTorch writes "Process Group Description" from 2.4 on; Megatron-LM and torchtitan name their groups. A send belongs
    to the pipeline, because nothing else sends to a single rank.
    """
    group = f"{arguments.get('Process Group Description', '')} {arguments.get('Process Group Name', '')}"
    for name, pattern in _GROUPS:
        if re.search(pattern, group.lower()):
            return name
    return "pp" if kind == "send-recv" else "communication"
