"""`podsim kernel`: how long one kernel takes on a GPU, its share of the roofline, and what was measured near it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass

import numpy as np

from podsim.accuracy.kernel_case import (
    OPERATIONS,
    PASSES,
    NearestKernel,
    engine_text,
    kernel_sizes,
    kernel_source,
    kernel_work,
    nearest_kernels,
    sizes_text,
)
from podsim.accuracy.price_engines import LAWS
from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.errors import PlanError, raise_all
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.engine_run import EngineRun, library_precision, precision_name
from podsim.kernels.engine_work import least_seconds
from podsim.kernels.gemm import gemm_seconds, operand_bytes
from podsim.learning.product_error import product_error
from podsim.options.question import option, overrides_option, question, wrong_choices
from podsim.units import format_quantity

_ENGINES = ("trtllm", "vllm")
KERNELS = ("gemm", "attention", "decode", "mla", "mla-decode", "moe", "norm", "elementwise")


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """A kernel, its sizes, and what runs it."""

    kernel: str = option(
        MISSING,
        "gemm, attention, decode, mla, mla-decode, moe, norm or elementwise.",
        choices=KERNELS,
        argument=True,
    )
    shape: str = option(
        MISSING,
        "gemm: MxNxK; attention, mla: BATCHxTOKENS; decode, mla-decode: BATCHxKEYS; moe: TOKENS; norm, elementwise: "
        "ROWSxWIDTH.",
        argument=True,
    )
    on: str = option(MISSING, "GPU: h100, h200-sxm5-141gb.", example="h100")
    engine: str = option("", "trtllm or vllm; default trtllm, for gemm the GPU's library alone.")
    release: str = option(
        "", "Release of the engine, as its tables name it; shown, and compared with the measured ones."
    )
    source: str = option("", "Source of the engine's kernel: vllm_flash_attn_fa3.")
    dtype: str = option(
        "bf16",
        "Number format: any of the GPU's sheet as fp64, tf32, int4; engines: fp8_block, nvfp4, int8_wo, w4a16_mxfp4.",
    )
    cache: str = option("", "Number format of keys and values: bf16 or fp8; default bf16.")
    heads: int = option(32, "Query heads; of mla those of one GPU.")
    kv_heads: int | None = option(None, "Heads of keys and values; default as many as query heads.")
    head_dim: int = option(128, "Width of a head.")
    window: int = option(0, "Keys that a query sees at most; 0: all.")
    hidden: int = option(4096, "moe: width of a token.")
    inner: int = option(2048, "moe: inner width of an expert.")
    experts: int = option(128, "moe: experts of the layer.")
    top: int = option(8, "moe: experts that a token chooses.")
    tp: int = option(1, "moe: GPUs that an expert is divided over.")
    ep: int = option(1, "moe: GPUs that the experts are dealt to.")
    skew: float = option(
        0.0, "moe: exponent of the power law of tokens over experts; 0: even, measured: 1.01 and 1.2."
    )
    overrides: Mapping[str, str] | None = overrides_option("memory_bandwidth=4TB/s")


@dataclass(frozen=True, kw_only=True)
class KernelTime(Answer, view=View(rows="nearest")):
    """The predicted time of one kernel."""

    kernel: str
    sizes: str
    gpu: str
    engine: str
    """The engine, release, kernel and number formats."""
    seconds: float = shown("time", of_row=lambda time: time.summary)
    """s. The predicted time of one call, without the host's launch."""
    rounding: float | None = shown("rounding error", of_row=lambda time: "", default=None)
    """share. The part of a product's result that rounding its operands and sums costs; None for other kernels."""
    light: float = shown("roofline")
    """s. The time at full peak arithmetic or bandwidth, whichever is longer."""
    bound: str = shown("limited by")
    """The limit at full peak: arithmetic or memory."""
    source: str
    """The law, and the measurements that its constants were fitted to."""
    nearest: tuple[NearestKernel, ...] = shown(default=(), title="Nearest measured kernels")

    @property
    def summary(self) -> str:
        """One line: the time, its share of the roofline, the nearest measurement and the rounding error."""
        said = [f"{self.share:.0%} of roofline"]
        said += [f"nearest {format_quantity(near.measured, 's')}" for near in self.nearest[:1]]
        said += [f"rounding {self.rounding:.2g}"] if self.rounding is not None else []
        return f"{format_quantity(self.seconds, 's')} ({'; '.join(said)})"

    @property
    def share(self) -> float:
        """Share of the roofline: 1 is a kernel at full peak."""
        return self.light / self.seconds


@question(KernelOptions)
def kernel(options: KernelOptions) -> KernelTime:
    """Seconds of one call of a kernel, without the host's launch, and the measured kernels nearest to it.

    Clocks are those of a burst. Raises PodsimError for an unknown GPU, engine or number format, and sizes that are none.
    """
    problems = wrong_choices(options, "kernel")
    if options.engine and options.engine.lower() not in _ENGINES:
        problems.append(f"engine={options.engine[:40]!r} may be {', '.join(_ENGINES)}")
    raise_all(problems, PlanError)
    gpu = load_gpu(options.on, options.overrides)
    sizes = kernel_sizes(
        options.kernel, options.shape, _named_sizes(options), window=options.window, skew=options.skew
    )
    if options.kernel in PASSES:
        return _pass_time(options, gpu, sizes)
    cache = precision_name(options.cache or "bf16") if options.kernel not in ("gemm", "moe") else ""
    is_library = options.kernel == "gemm" and not options.engine
    run = EngineRun(
        engine="" if is_library else options.engine.lower() or "trtllm", release=options.release,
        kernel=options.source, cache=cache,
        precision=library_precision(options.dtype) if is_library else precision_name(options.dtype),
    )  # fmt: skip
    arrays = {name: np.array([value]) for name, value in sizes.items()}
    if is_library:
        seconds = float(gemm_seconds(gpu, *sizes.values(), precision=run.precision, layout="tn"))
    else:
        seconds = float(LAWS[OPERATIONS[options.kernel][0]].seconds(gpu, run, arrays)[0])
    light, bound = least_seconds(gpu, run.precision, *kernel_work(options.kernel, run, arrays))
    return KernelTime(
        kernel=options.kernel, sizes=sizes_text(sizes), gpu=gpu.name, engine=engine_text(run),
        seconds=max(seconds, light),
        rounding=product_error(run.precision, int(sizes["k"])) if options.kernel == "gemm" else None,
        light=light, bound=bound, source=kernel_source(options.kernel, gpu, run, sizes),
        nearest=nearest_kernels(options.kernel, gpu, run, sizes),
    )  # fmt: skip


def _named_sizes(options: KernelOptions) -> dict[str, int]:
    """The sizes that have a name, by column of the tables."""
    return {
        "num_heads": options.heads, "num_key_value_heads": options.kv_heads or options.heads,
        "head_dim": options.head_dim,
        "hidden_size": options.hidden, "inter_size": options.inner, "topk": options.top, "num_experts": options.experts,
        "moe_tp_size": options.tp, "moe_ep_size": options.ep,
    }  # fmt: skip


def _pass_time(options: KernelOptions, gpu: Gpu, sizes: Mapping[str, float]) -> KernelTime:
    """A memory-bound kernel: tensors read and written once."""
    precision = library_precision(options.dtype)
    moved = PASSES[options.kernel] * sizes["rows"] * sizes["width"] * operand_bytes(precision)
    return KernelTime(
        kernel=options.kernel, sizes=sizes_text(sizes), gpu=gpu.name, engine=precision,
        seconds=float(memory_seconds(gpu, moved)), light=moved / gpu.memory_bandwidth, bound="memory",
        source=f"law of memory-bound kernels: {PASSES[options.kernel]:.0f} tensors read or written once",
    )  # fmt: skip
