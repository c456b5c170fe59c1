"""Software: what a training framework of some year adds to the hardware's own speed.

The same GPU gained 24 % in eight months of software, so the software is part of every plan, never a silent factor. Values
stand in `software.toml`, each entry with its source; `software_published.toml` holds those that exist for single sources
of published rows. Fitted values come from end-to-end measurements with role `calibrate`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from podsim.errors import CatalogError, unknown_name
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.memo import hashed_once
from podsim.packaged import packaged_toml
from podsim.records import MISSING, dataclass, fields, replace

OVERLAPS = ("overlap_grad", "overlap_param", "overlap_tp")


@hashed_once
@dataclass(frozen=True, kw_only=True)
class Software:
    """One version of a framework."""

    name: str
    title: str
    source: str
    evidence: str = ""
    """The rows behind the fitted values, and the residual."""
    fitted: tuple[str, ...] = ()
    """The constants that `podsim calibrate --software NAME` fits to the rows of this entry."""
    fitted_with: tuple[str, ...] = ()
    """The entries that inherit the fitted values without a fit of their own, whose rows count in it, too."""
    gemm_speed: float = 1.0
    """factor. The speed of a GEMM in a long run, relative to the kernel law (short bursts): version of cuBLAS, clocks.
    """
    expert_speed: float = 1.0
    """factor. The speed of the products of experts, relative to that of other GEMMs: how they are grouped, routing."""
    conv_speed: float = 1.0
    """factor. The speed of a convolution, relative to the products that stand for it: version of cuDNN, layouts,
    padding."""
    attention_speed: float = 1.0
    """factor. The speed of attention kernels, relative to the kernel law."""
    memory_speed: float = 1.0
    """factor. The speed of memory-bound kernels, relative to the kernel law."""
    collective_speed: float = 1.0
    """factor. The speed of collectives inside a node, relative to the collective law (nccl-tests on idle GPUs)."""
    slow_nodes: float = 0.0
    """share. The share of nodes whose kernels are slow: a step waits for the slowest of its nodes."""
    slowness: float = 0.1
    """share. The share by which kernels of such a node take longer."""
    flash: str = "flash2"
    """The attention kernel when the plan says flash: triton (flash attention in Triton), flash1, flash2, flash3."""
    fused_softmax: bool = True
    """Whether scale, mask and softmax of unfused attention are one kernel."""
    elementwise_traffic: float = 1.0
    """factor. The bytes of bias, activation, dropout and residual kernels, relative to fully fused ones."""
    norm_traffic: float = 1.0
    """factor. The bytes of norms, relative to one fused kernel."""
    host_kernel: float = 0.0
    """s. The host time to launch one kernel."""
    expert_kernels: float = 0.0
    """count. The kernels that the host launches for a product of each expert of a rank; 0 if one has them all."""
    block_kernels: float = 0.0
    """count. The further kernels in formats with a scale for each block: casts, and scales put in order."""
    router_kernels: float = 0.0
    """count. The kernels that route the tokens of a layer and order them by expert, forward."""
    host_collective: float = 0.0
    """s. The host time of one tensor-parallel collective, for each other rank of the group on its node: all wait for the
    last to launch it."""
    host_send: float = 15e-6
    """s. The time that a pipeline exchange adds to each pass once the pipeline is full (launch, synchronisation)."""
    host_update: float = 0.0
    """s. The host time to update the weights of one layer; of a captured network, of one op with weights."""
    host_step: float = 0.0
    """s. The time of a step outside its passes: data, loss scale, gradient norm, optimizer launch, logging."""
    gradient_bytes: float = 4.0
    """B. The bytes per parameter that the data-parallel group reduces."""
    bucket: float = 25 * 2.0**20
    """B. The gradients of a captured network that are reduced at once, during the backward pass or after it."""
    shares_update: bool = False
    """Whether the GPUs of a node divide the optimizer's update of a captured network, between two halves of the sum."""
    accumulation_bytes: float = 0.0
    """B. The bytes per parameter that move to add a micro-batch's gradients to those before; 0 where products add them.
    """
    gradient_memory: float = 4.0
    """B. The bytes per parameter of stored gradients."""
    accumulator_memory: float = 0.0
    """B. The bytes per parameter of fp32 sums of bf16 gradients that a ZeRO optimizer keeps, which nothing divides."""
    optimizer_traffic: float = 34.0
    """B. The bytes per parameter that the Adam step moves (read and write master, moments, gradient; write weights;
    norm)."""
    loss_traffic: float = 1.0
    """factor. The bytes of the cross-entropy, relative to Megatron-LM's, op by op in fp32."""
    logit_bytes: float = 8.0
    """B. The bytes per logit that are held in addition to the fp32 softmax: low precision, gradients."""
    scatter_gather: bool = True
    """Whether pipeline sends are split over the TP group and gathered on the other side."""
    pipeline_exposed: float = 1.0
    """share. The share of a pipeline send's time that no pass hides."""
    tp_overlap: float = 0.0
    """share. The share of a backward tensor-parallel all-reduce that its weight-gradient GEMM hides."""
    async_tp: float = 0.7
    """share. The share of tensor-parallel collectives that is hidden when the plan says overlap_tp."""
    default_for: tuple[str, ...] = ()
    """The GPU families on which a plan that names no software gets this entry; "" is any other."""
    can_overlap: tuple[str, ...] = OVERLAPS
    """The overlaps of a plan that this framework has."""
    ep_overlap: float = 0.0
    """share. The share of expert-parallel exchanges that compute hides, at most as long as the kernels take."""
    overlaps_tp: bool = False
    """Whether its recipes overlap tensor-parallel collectives, so runs that say nothing do."""
    collective_wait: float = 0.0
    """s. The mean wait of collectives that no arithmetic hides for the framework's next cycle of them."""
    loads_beside: bool = False
    """Whether images are loaded beside the step; else the cores that launch the step load them, too."""
    exchanges_by_rail: bool = False
    """Whether tables' vectors change GPUs inside a node first: each GPU then exchanges with its peers of other nodes."""
    hidden_exchange: float = 0.0
    """share. The part of the exchange of tables' vectors that runs beside arithmetic, at most the time of both passes."""
    first_gpu: str = ""
    """The layers before the tables' vectors that the first GPU computes for the samples of all, by their first word."""
    tables: str = ""
    """The placement of embedding tables: plain (default), best, or ways by TorchRec's names."""
    lacks: tuple[str, ...] = ()
    """The abilities that this framework lacks, by the names of `abilities.ABILITIES`; a search leaves them out."""
    contention: float = 0.1
    """share. The share by which compute slows while a collective runs."""
    broadcasts: bool = False
    """Whether each rank of ZeRO 1 and 2 sends its updated weights in a broadcast of its own; else all are gathered."""
    late_gather: float = 0.0
    """share. The share of a ZeRO-3 backward pass's weight gathers that nothing hides (no backward prefetch)."""
    regather: bool = True
    """Whether ZeRO 3 under a pipeline gathers weights for every micro-batch; otherwise once a step."""
    gathers_tensors: bool = False
    """Whether ZeRO 3 casts and gathers a tensor at a time, so that it holds neither a whole layer nor a copy in 16 bits.
    """
    reduces_by_round: bool = False
    """Whether ZeRO 2 divides gradients under interleaved pipelines: those of a chunk are reduced after each round of
    consecutive micro-batches, as many as stages; else gradients stay whole until the step ends."""
    dispatcher: str = "alltoall"
    """The exchange of routed tokens: alltoall and low-latency (each of the top-k copies), allgather (all tokens of the
    group), deepep and hybridep (one copy for each node of destination, then one for each of its GPUs)."""
    dispatch_bytes: float = 0.0
    """B. The bytes of an element on its way to the experts; 0 is that of the activations."""
    combine_bytes: float = 0.0
    """B. The bytes of an element on its way back; 0 is that of the activations."""
    permute_bytes: float = 0.0
    """B. The bytes that move per element of a routed copy in a pass to order tokens by expert and back: permute, sort,
    unpermute."""
    folds_experts: bool = False
    """Whether expert groups may lie across TP groups (parallel folding); otherwise tp divides experts, too."""
    offloads: bool = False
    """Whether its recipes keep activations in the host's memory where they do not fit, so none are computed again."""
    precision: str = "bf16"
    """The number format of runs that do not state theirs."""
    selective: str = "core"
    """The scope of selective recomputation: "core", the attention core (Megatron-LM), "ops", every second matrix
    product and all memory-bound ops, but not attention (torchtitan), or "outputs", norms, activation functions and the
    products that widen the latents of attention (DeepSeek)."""
    activation_bytes: float = 0.0
    """B. The bytes per element of what activation functions keep; 0 is the number format's."""
    cast_bytes: float = 5.0
    """B. The bytes moved per element to scale and cast an operand of an fp8 matrix product (read for the maximum, read,
    write)."""
    expert_cast_bytes: float = 5.0
    """B. The same for products of experts."""
    fp8_gather: bool = False
    """Whether fp8 operands under sequence parallelism are cast before they are gathered, which halves the all-gathers
    and divides the casts over the TP group."""
    context_cost: float = 0.0
    """share. The share by which ring attention over very many ranks is slower than attention on one (half of it over
    two)."""
    early_stop: bool = False
    """Whether full recomputation ends at the last tensor that the backward pass needs (PyTorch's non-reentrant
    checkpoint), so a layer's last projection is not computed again; otherwise whole layers are."""
    nccl: str = "2.18"
    runtime: str = "megatron"
    """The runtime that lays out memory: "megatron" (the sum of each kind's peak) or "torch" (FSDP2, DTensor and
    torch.distributed.pipelining: the highest moment of a step)."""
    fuses: bool = False
    """Whether a compiler fuses the ops between matrix products and stores none of them."""
    reserved: float = 0.0
    """B. The memory that the allocator holds beyond what is in use at the highest moment."""
    reserved_share: float = 0.0
    """share. The same, over the stored activations."""
    head_room: float = 0.1
    """share. The part of a GPU's memory that plans leave free, for fragmentation that the law does not count."""
    memory_floor: float = 2.0e9
    """B. The memory of CUDA context, libraries, workspaces and communicators."""
    activation_scale: float = 1.0
    """factor. The stored activations (without full recomputation), relative to the ops' count; below 1 for a compiler
    that fuses."""
    keeps_gathered: bool = False
    """Whether sequence parallelism keeps the gathered inputs of column-parallel GEMMs (DTensor), not just their own
    part."""
    expert_imbalance: float = 1.1
    """factor. The tokens of the busiest expert rank over the mean."""

    @property
    def sends_once(self) -> bool:
        """Whether its dispatcher sends one copy of a token to a node, whatever number of experts it has there."""
        return self.dispatcher in ("deepep", "hybridep")


@cache
def _catalog() -> Mapping[str, Mapping[str, Software]]:
    """Name, then GPU, architecture or architecture-precision ("" for any other), to the entry."""
    return read_catalog(software_entries())


@cache
def software_entries() -> Mapping[str, Any]:
    """Every packaged entry as its file has it: frameworks, then the overrides for single sources of published rows."""
    return packaged_toml("training/software.toml") | packaged_toml("training/software_published.toml")


def read_catalog(raw: Mapping[str, Any]) -> dict[str, dict[str, Software]]:
    """Software by name and GPU or architecture from parsed TOML; CatalogError for an unknown or missing key.

    An entry may inherit another; a table inside it, named after an architecture or a GPU, replaces values on those GPUs,
    one named after both an architecture and a precision ("volta-fp32") what the architecture's says, in that precision.
    """
    known = {field.name for field in fields(Software)} - {"name"}
    required = {f.name for f in fields(Software) if f.default is MISSING} - {"name"}
    plain: dict[str, dict[str, dict[str, Any]]] = {}
    for name, entry in raw.items():
        base = plain.get(entry.get("inherits", ""), {"": {}})
        own = {
            key: value for key, value in entry.items() if key != "inherits" and not isinstance(value, dict)
        }
        parts = {key: value for key, value in entry.items() if isinstance(value, dict)}
        unknown = sorted(set(own) - known) + [
            f"{a}.{k}" for a, p in parts.items() for k in p if k not in known
        ]
        missing = sorted(required - set(own) - set(base[""]))
        if unknown or missing or (entry.get("inherits", name) not in {name, *plain}):
            raise CatalogError(f"software {name!r}: unknown keys {unknown}, missing keys {missing}")
        merged = {"": base[""] | own}
        for part in sorted({*base, *parts} - {""}, key=lambda part: (_precise(part) != part, part)):
            below = base.get(part) or base.get(_precise(part), base[""])
            merged[part] = below | own | parts.get(_precise(part), {}) | parts.get(part, {})
        plain[name] = merged
    return {
        name: {a: _software(name, entry) for a, entry in entries.items()} for name, entries in plain.items()
    }


def _precise(part: str) -> str:
    """The architecture of a part that names a precision, too; else the part."""
    architecture, _, precision = part.rpartition("-")
    return architecture if precision in PRECISIONS else part


def _software(name: str, entry: Mapping[str, Any]) -> Software:
    lists = {
        "can_overlap": tuple(entry.get("can_overlap", OVERLAPS)),
        "fitted": tuple(entry.get("fitted", ())),
        "fitted_with": tuple(entry.get("fitted_with", ())),
        "default_for": tuple(entry.get("default_for", ())),
        "lacks": tuple(entry.get("lacks", ())),
    }
    return Software(name=name, **{**entry, **lists})


def software_names() -> tuple[str, ...]:
    """Names of the catalog, in its order."""
    return tuple(_catalog())


def reduces_by_round(name: str) -> bool:
    """Whether a framework divides the gradients of a pipeline; not if it is unknown."""
    return name in _catalog() and load_software(name).reduces_by_round


@lru_cache(maxsize=256)
def default_software(gpu: Gpu) -> str:
    """The name of the software of a plan that names none: what was calibrated on the GPU's family."""
    by_family = {
        family: name for name, entry in software_entries().items() for family in entry.get("default_for", ())
    }
    return by_family.get(gpu.architecture.lower(), by_family[""])


def load_software(name: str, gpu: Gpu | None = None, precision: str = "") -> Software:
    """One software entry by name, as it runs on a GPU in a precision; CatalogError if it is unknown."""
    catalog = _catalog()
    if name not in catalog:
        raise CatalogError(
            f"{unknown_name('software', str(name), catalog)} (`podsim show software` lists them)"
        )
    entry = catalog[name]
    if gpu is None:
        return entry[""]
    known = entry[holds(entry, gpu, precision)]
    own: Mapping[str, Any] = _measured_constants(gpu.kernels, name) if gpu.kernels.endswith(".toml") else {}
    return replace(known, **own) if own else known


def part_of(name: str, gpu: Gpu, precision: str = "", also: str = "") -> str:
    """Which of an entry's own tables holds on a GPU in a precision, "" for the entry itself; `also` is one more of them.

    Tables that it inherits are not its own: what the entry itself says replaces theirs.
    """
    own = {key for key, value in software_entries()[name].items() if isinstance(value, dict)}
    return holds({*own, also, ""}, gpu, precision)


def holds(parts: Collection[str], gpu: Gpu, precision: str) -> str:
    """Which of the names of an entry's tables holds on a GPU in a precision; "" must be among them."""
    cast = precision in PRECISIONS and PRECISIONS[precision].is_cast
    precisions = (precision, "fp8") if cast else (precision,)
    wanted = (gpu.name, *(f"{gpu.architecture}-{name}" for name in precisions), gpu.architecture, "")
    return next(part for part in wanted if part in parts)


@cache
def _measured_constants(file: str, name: str) -> Mapping[str, float]:
    """Constants of a software entry that were measured on one machine: the table software.NAME of its file."""
    try:
        table = tomllib.loads(Path(file).read_text("utf-8")).get("software", {}).get(name, {})
    except (OSError, ValueError) as problem:
        raise CatalogError(f"{file}: its software constants cannot be read: {problem}") from None
    floats = {field.name for field in fields(Software) if field.type == "float"}
    if unknown := sorted(set(table) - floats):
        raise CatalogError(f"{file}: software.{name}: {unknown_name('constant', unknown[0], floats)}")
    return {key: float(value) for key, value in table.items()}


def usable_bytes(gpu: Gpu, software: Software) -> float:
    """B of a GPU that a plan may need: its board, less the head-room.

    Gigabytes of a data sheet are binary: an "80 GB" GPU has 81,920 MiB, 85.9e9 B. A MIG instance and a processor have
    what they state.
    """
    is_nominal = gpu.fraction == 1 and gpu.architecture != "cpu"
    board = gpu.memory / 1e9 * 2.0**30 if is_nominal else gpu.memory
    return board * (1 - software.head_room)
