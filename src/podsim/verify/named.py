"""The named parts of the packaged tables: what one publication measured, with the software of its time.

A sweep holds several plans for the same work, so that ranking them means something; points do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.verify.rows import Row

__all__ = ["NAMED", "NamedTable"]


@dataclass(frozen=True, kw_only=True)
class NamedTable:
    """One part of a packaged table: the rows whose id and cells start as given."""

    slug: str
    title: str
    era: str
    """years of the measured software, or "not stated"; one model gained 24 % in eight months on one node"""
    kind: str
    """sweep or points"""
    prefix: str = ""
    """start of the ids"""
    where: Mapping[str, str] = field(default_factory=dict)
    """column -> how its cell starts"""
    of: str = "llm"
    """the packaged table it is a part of"""
    what: str = ""
    """quantity compared unless another is asked for; "" takes that of the packaged table"""
    classes: tuple[str, ...] = ()
    """columns of the breakdown; () takes those of the packaged table"""
    parts: bool = False
    """whether other named tables split it further"""

    def holds(self, row: Row) -> bool:
        """Whether a row of the packaged table belongs here."""
        return row.id.startswith(self.prefix) and all(
            row.text(c).startswith(v) for c, v in self.where.items()
        )


_FLOPS, _TOKENS = "FLOP/s per GPU", "tokens/s per GPU"
_SC21 = "Narayanan et al. 2021 (SC21)"

NAMED = (
    NamedTable(
        slug="korthikanti",
        title="Korthikanti et al. 2022, Table 5 and section 6.3: activation recomputation, 22B to 1T",
        era="2022",
        kind="sweep",
        prefix="KORT-",
        classes=("recompute",),
    ),
    NamedTable(
        slug="korthikanti-layer",
        title="Korthikanti et al. 2022, Table 4: one transformer layer of the 22B model",
        era="2022",
        kind="sweep",
        prefix="KORTL-",
        classes=("recompute", "seq_parallel"),
    ),
    NamedTable(
        slug="sc21-table1",
        title=f"{_SC21}, Table 1: weak scaling, 1.7B to 1T",
        era="2021",
        kind="points",
        prefix="SC21-",
    ),
    NamedTable(
        slug="sc21-table2",
        title=f"{_SC21}, Table 2: PTD-P and ZeRO-3",
        era="2021",
        kind="sweep",
        prefix="SC21T2-",
        classes=("framework",),
        parts=True,
    ),
    NamedTable(
        slug="sc21-table2-ptdp",
        title=f"{_SC21}, Table 2: PTD-P rows",
        era="2021",
        kind="points",
        prefix="SC21T2-",
        where={"framework": "Megatron-LM"},
    ),
    NamedTable(
        slug="sc21-table2-zero3",
        title=f"{_SC21}, Table 2: ZeRO-3 rows (DeepSpeed)",
        era="2021",
        kind="points",
        prefix="SC21T2-",
        where={"framework": "DeepSpeed"},
        classes=("model",),
    ),
    NamedTable(
        slug="sc21-figures",
        title=f"{_SC21}, Figures 11 to 18, read off the plots",
        era="2021",
        kind="sweep",
        prefix="SC21F-",
        classes=("source",),
    ),
    NamedTable(
        slug="vtrain-single",
        title="vTrain (MICRO-57, 2024) measured ground truth: one node",
        era="2024",
        kind="sweep",
        prefix="VTS-",
    ),
    NamedTable(
        slug="vtrain-multi",
        title="vTrain (MICRO-57, 2024) measured ground truth: several nodes",
        era="2024",
        kind="sweep",
        prefix="VTM-",
    ),
    NamedTable(
        slug="llm-foundry-a100",
        title="MosaicML llm-foundry benchmarks: A100",
        era="2023",
        kind="points",
        prefix="LF-",
        where={"gpu": "A100"},
        classes=("model",),
    ),
    NamedTable(
        slug="llm-foundry-h100",
        title="MosaicML llm-foundry benchmarks: H100",
        era="2023",
        kind="points",
        prefix="LF-",
        where={"gpu": "H100"},
        classes=("model",),
    ),
    NamedTable(
        slug="torchtitan",
        title="torchtitan benchmarks: Llama 3.1 on H100",
        era="2024-2025",
        kind="sweep",
        prefix="TT-",
        classes=("model",),
    ),
    NamedTable(
        slug="internevo",
        title="InternEvo training performance: InternLM-7B",
        era="2023",
        kind="sweep",
        prefix="IE-",
    ),
    NamedTable(
        slug="nemo",
        title="NeMo-Megatron on a DGX SuperPOD: scaling table",
        era="2022",
        kind="points",
        prefix="NEMO-",
        classes=("model",),
    ),
    NamedTable(
        slug="megatron-readme-2020",
        title="Megatron-LM README, September 2020: weak scaling",
        era="2020",
        kind="points",
        prefix="MLM20-",
        classes=("gpu",),
    ),
    NamedTable(
        slug="megatron-readme-2021",
        title="Megatron-LM README, January 2021 (older software than SC21)",
        era="2021",
        kind="points",
        prefix="MLM21JAN-",
    ),
    NamedTable(
        slug="megatron-readme-h100",
        title="Megatron-LM README: weak scaling on H100 (Megatron-Core r0.8.0)",
        era="2024",
        kind="points",
        prefix="MLMH100-",
        what=_FLOPS,
    ),
    NamedTable(
        slug="simumax",
        title="SimuMax benchmark on eight A100 PCIe, read off the plot",
        era="2025",
        kind="sweep",
        prefix="SIMU-",
        what=_FLOPS,
    ),
    NamedTable(
        slug="flashattention",
        title="FlashAttention training README: GPT-3 family on eight A100",
        era="2022",
        kind="points",
        prefix="FA-",
        where={"source": "FlashAttention training README"},
        classes=("model",),
    ),
    NamedTable(
        slug="flashattention-figure",
        title="FlashAttention README figure: three frameworks on eight A100",
        era="2022",
        kind="points",
        prefix="FA-",
        where={"source": "FlashAttention README figure"},
        what=_FLOPS,
        classes=("framework",),
    ),
    NamedTable(
        slug="flashattention-2",
        title="FlashAttention-2 paper, Table 1: GPT-3 on eight A100",
        era="2023",
        kind="points",
        prefix="FA2-",
        what=_FLOPS,
        classes=("framework",),
    ),
    NamedTable(
        slug="pythia",
        title="Pythia paper, Table 5: GPT-NeoX on A100",
        era="2023",
        kind="points",
        prefix="PYTHIA-",
        classes=("model",),
    ),
    NamedTable(
        slug="llama",
        title="LLaMA (Touvron et al. 2023): 65B on 2,048 A100",
        era="2023",
        kind="points",
        prefix="LL1-",
        classes=("model",),
    ),
    NamedTable(
        slug="llama-run-hours",
        title="GPU hours of whole runs: LLaMA and Llama 2",
        era="2023",
        kind="points",
        prefix="RUN-",
        what=_TOKENS,
        classes=("model",),
    ),
    NamedTable(
        slug="vision-train",
        title="Deep Learning Examples: training",
        era="not stated",
        kind="points",
        of="vision",
        where={"task": "train"},
        classes=("model",),
    ),
    NamedTable(
        slug="vision-infer",
        title="Deep Learning Examples and TensorRT: inference",
        era="not stated",
        kind="points",
        of="vision",
        where={"task": "infer"},
        classes=("model",),
    ),
    NamedTable(
        slug="mlperf-v0.7",
        title="MLPerf Training v0.7",
        era="2020",
        kind="points",
        of="mlperf",
        where={"version": "v0.7"},
    ),
    NamedTable(
        slug="mlperf-v1.1",
        title="MLPerf Training v1.1",
        era="2021",
        kind="points",
        of="mlperf",
        where={"version": "v1.1"},
    ),
)
