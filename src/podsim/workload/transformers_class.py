"""A config.json built by transformers' own class on the meta device, and its modules as blocks (extra `hf`).

The class holds every parameter, with shapes and no numbers. The items of its longest lists of layers become blocks;
each matrix of a layer becomes a product, three-dimensional ones those of experts, and the rest plain parameters.
Attention's cores have the heads that the config states. Known error: products whose inputs are no tokens of the
sequence (of images, of low-rank adapters between steps) count as if they were. Scans count as their projections.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from podsim.errors import ModelError
from podsim.workload.config_json import Config
from podsim.workload.families import trained_length
from podsim.workload.model import Block, Captured, Saved, Split, TensorOp
from podsim.workload.specification import LIMITS, Transformer, shown

_ROWS = re.compile(
    r"(o_proj|out_proj|down_proj|dense_4h_to_h|c_proj|fc2|w2|wo|Wo|dense|output\.dense|linear_out)$"
)
_MOST_LAYERS = 1_000
_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "moe_top_k", "top_k_experts")


def is_installed() -> bool:
    """Whether transformers and PyTorch are there."""
    return find_spec("transformers") is not None and find_spec("torch") is not None


def has_class(kind: object) -> bool:
    """Whether transformers has a config class for a model_type."""
    known = import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES
    return isinstance(kind, str) and kind in known


def class_parameters(raw: Mapping[str, Any]) -> int:
    """The parameters that a config's class in transformers counts; 0 without it, or where it is of more parts."""
    if not is_installed() or not has_class(raw.get("model_type")):
        return 0
    try:
        return _counted(json.dumps(raw, sort_keys=True))
    except (ModelError, TypeError, ValueError):
        return 0


@lru_cache(maxsize=64)
def _counted(text: str) -> int:
    raw = json.loads(text)
    module = _module(raw, "model")
    is_whole = "vision_config" in raw or not hasattr(module.config, "vision_config")
    return sum(int(weight.numel()) for weight in module.parameters()) if is_whole else 0


def read_by_class(raw: Mapping[str, Any], name: str) -> Transformer:
    """The specification of a config with the blocks of its class.

    Raises ModelError where transformers has no such class, or where the class refuses the config.
    """
    module = _module(raw, name)
    config = Config(raw=_text_config(raw, module.config))
    lists = _layer_lists(module)
    if not lists:
        raise ModelError(
            f"{name}: {type(module).__name__} has no list of layers, so there is nothing to plan"
        )
    inside = {id(value) for layers in lists for value in layers.parameters()}
    hidden = config.integer("hidden", "hidden_size", "d_model", "n_embd", "dim", default=1)
    seen: set[int] = set()
    blocks = [_block(layer, config, hidden, seen) for layers in lists for layer in layers]
    embedding, head = _ends(module, hidden, inside)
    captured = Captured(
        embedding=Block(name="embedding", ops=embedding, syncs=1), layers=tuple(_merge_runs(blocks)),
        head=Block(name="head", ops=head),
    )  # fmt: skip
    return Transformer(
        name=name, family=str(raw.get("model_type"))[:60], source=f"{type(module).__name__} of transformers",
        layers=len(blocks), hidden=hidden, heads=config.integer("heads", "num_attention_heads", "n_head", default=1),
        vocab=config.integer("vocab", "vocab_size", default=1), sequence=trained_length(config, default=4096),
        head_dim=config.integer("head_dim", "head_dim", default=0) or 1, captured=captured,
        assumptions=(f"read from the modules of transformers' {type(module).__name__}; scans count as their products",),
    )  # fmt: skip


def _module(raw: Mapping[str, Any], name: str) -> Any:
    """The class of a config on the meta device."""
    large = [
        key
        for key, value in raw.items()
        if type(value) is int and value > (_MOST_LAYERS if "layers" in key else LIMITS["vocab"])
    ]
    if large:
        raise ModelError(f"{name}: {large[0]}={shown(raw[large[0]])} is beyond what is built")
    transformers, torch = import_module("transformers"), import_module("torch")
    auto = import_module("transformers.models.auto.modeling_auto")
    kind = raw.get("model_type")
    names = [str(name) for name in raw.get("architectures") or () if hasattr(transformers, str(name))]
    tables = (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
              auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
              auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES, auto.MODEL_MAPPING_NAMES)  # fmt: skip
    names += [table[kind] for table in tables if isinstance(kind, str) and isinstance(table.get(kind), str)]
    if not names:
        raise ModelError(f"{name}: transformers {transformers.__version__} has no class for {shown(kind)}")
    left = {
        key: value
        for key, value in raw.items()
        if key not in ("model_type", "auto_map", "quantization_config")
    }
    try:
        config = transformers.AutoConfig.for_model(kind, **left)
        with torch.device("meta"):
            return getattr(transformers, names[0])(config)
    except Exception as error:  # a class may refuse a config in any way; the message names it
        reason = str(error).strip().splitlines()
        raise ModelError(
            f"{name}: transformers' {names[0]} refuses the config: {type(error).__name__}: {''.join(reason[:1])[:160]}"
        ) from None


def _text_config(raw: Mapping[str, Any], config: Any) -> dict[str, Any]:
    """The keys of the language model, with the class's defaults."""
    stated = config.to_dict()
    inner = stated.get("text_config")
    merged = {**stated, **inner} if isinstance(inner, dict) else stated
    return {key: value for key, value in merged.items() if type(value) in (int, float, bool, str, dict)}


def _layer_lists(module: Any) -> list[Any]:
    """The outermost lists of two or more items with parameters, or of one where there is no longer one."""
    nn = import_module("torch.nn")
    lists = [
        (path, child) for path, child in module.named_modules()
        if isinstance(child, (nn.ModuleList, nn.Sequential)) and any(True for _ in child.parameters())
    ]  # fmt: skip
    several = [(path, child) for path, child in lists if len(child) > 1] or lists
    paths = [path for path, _ in several]
    outer = [
        child
        for path, child in several
        if not any(path.startswith(f"{other}.") for other in paths if other != path)
    ]
    return [child for child in outer if isinstance(child, nn.ModuleList)] or outer


def _block(layer: Any, config: Config, hidden: int, seen: set[int]) -> Block:
    """A layer: its products, the cores of its attention, and the rest of its parameters."""
    ops: list[TensorOp] = []
    plain = 0
    experts = 0
    for path, weight in layer.named_parameters():
        if id(weight) in seen:
            continue
        seen.add(id(weight))
        owner = path.removesuffix(".weight")
        if weight.ndim == 3 and min(weight.shape) > 1 and "conv" not in path:
            experts = max(experts, int(weight.shape[0]))
            ops.append(
                _product(owner, int(weight.shape[2]), int(weight.shape[1]), int(weight.shape[0]), hidden)
            )
        elif weight.ndim == 2 and "conv" not in path and min(weight.shape) > 1:
            ops.append(_product(owner, int(weight.shape[1]), int(weight.shape[0]), 1, hidden))
        else:
            plain += int(weight.numel())
    if any("ttention" in type(child).__name__ or "ttn" in type(child).__name__ for child in layer.modules()):
        ops.append(_core(ops, config, hidden))
    ops += _passes(hidden, plain)
    top_k = min(config.integer("top_k", *_TOP_K, default=1), max(experts, 1)) if experts else 0
    return Block(
        name=type(layer).__name__,
        ops=tuple(ops),
        syncs=sum(op.split == "row" for op in ops),
        experts=experts,
        top_k=top_k,
    )


def _product(name: str, inner: int, outer: int, copies: int, hidden: int) -> TensorOp:
    split: Split = "row" if _ROWS.search(name) or (copies > 1 and outer == hidden) else "column"
    return TensorOp(
        name=name, kind="gemm", split=split, n=outer, k=inner, weight=copies * inner * outer, expert=copies > 1,
        saved=(Saved(elements=inner, split="column" if split == "row" else "sequence"),),
    )  # fmt: skip


def _core(ops: list[TensorOp], config: Config, hidden: int) -> TensorOp:
    heads = config.integer(
        "heads", "num_attention_heads", "n_head", "num_heads", "attention_heads", default=1
    )
    width = next((op.n for op in ops if re.search(r"(q_proj|query|q_b_proj)$", op.name)), hidden)
    keys = next((op.n for op in ops if re.search(r"(k_proj|key)$", op.name)), width)
    size = config.integer("head_dim", "head_dim", default=0) or max(1, width // heads)
    kv = max(1, min(heads, keys // size))
    return TensorOp(
        name="attention.core", kind="attention", split="head", heads=heads, kv_heads=kv if heads % kv == 0 else heads,
        head_dim=size, value_dim=size, core=True, saved=(Saved(elements=(heads + 2 * kv) * size, split="column"),),
    )  # fmt: skip


def _passes(hidden: int, plain: int) -> Iterator[TensorOp]:
    """Two norms and two sums with the residual stream, which hold the parameters that no product reads."""
    for number in (1, 2):
        yield TensorOp(
            name=f"norm_{number}", kind="norm", split="sequence", bias=plain if number == 1 else 0, read=hidden,
            write=hidden, read_back=2 * hidden, write_back=hidden, saved=(Saved(elements=hidden, split="sequence"),),
            fused=False,
        )  # fmt: skip
        yield TensorOp(
            name=f"residual_{number}", kind="elementwise", split="sequence", read=2 * hidden, write=hidden,
            read_back=2 * hidden, write_back=hidden,
        )  # fmt: skip


def _ends(module: Any, hidden: int, inside: set[int]) -> tuple[tuple[TensorOp, ...], tuple[TensorOp, ...]]:
    """What stands before the layers and behind them: tables, the product that gives logits, and all else."""
    embedding: list[TensorOp] = []
    head: list[TensorOp] = []
    plain = 0
    table: Any = module.get_input_embeddings() if hasattr(module, "get_input_embeddings") else None
    last: Any = module.get_output_embeddings() if hasattr(module, "get_output_embeddings") else None
    tables = {id(part.weight): part for part in (table, last) if getattr(part, "weight", None) is not None}
    for weight in module.parameters():
        if id(weight) not in inside and id(weight) not in tables:
            plain += int(weight.numel())
    if table is not None and hasattr(table, "weight"):
        width = int(table.weight.shape[1])
        embedding.append(
            TensorOp(
                name="embedding.lookup", kind="embedding", split="vocab", weight=int(table.weight.numel()), read=width,
                write=width, read_back=2 * width, write_back=width, fused=False,
            )
        )  # fmt: skip
    head.append(TensorOp(name="head.plain", kind="elementwise", split="none", bias=plain))
    logits = getattr(last, "weight", None)
    if logits is not None:
        own = logits is not getattr(table, "weight", None)
        n, k = (int(size) for size in logits.shape[:2])
        head.append(
            TensorOp(name="head.logits", kind="gemm", split="vocab", n=n, k=k, weight=int(logits.numel()) * own,
                     saved=(Saved(elements=hidden, split="sequence"),))
        )  # fmt: skip
        head.append(
            TensorOp(name="head.loss", kind="cross_entropy", split="vocab", n=n, read=11 * n, write=8 * n,
                     read_back=4 * n, write_back=3 * n, saved=(Saved(elements=n, split="column", bytes=4),), fused=False)
        )  # fmt: skip
    return tuple(embedding), tuple(head)


def _merge_runs(blocks: list[Block]) -> Iterator[Block]:
    """Runs of equal layers as one block."""
    run: Block | None = None
    for block in blocks:
        if run is not None and block.ops == run.ops and block.experts == run.experts:
            run = Block(**{**vars(run), "count": run.count + 1})
            continue
        if run is not None:
            yield run
        run = block
    if run is not None:
        yield run
