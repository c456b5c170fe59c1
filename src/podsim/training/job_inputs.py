"""A job as a user words it: the model, the part of a cluster that it gets, tokens of a sequence, sequences of a step.

read_inputs("llama-3.1-8b", "h100", 64, "8k", None)
batch_of("4M", 8192, 64)      512 sequences, about four million tokens
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import log2
from pathlib import Path
from typing import NamedTuple

from podsim.errors import PodsimError, UnitError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.options.plan_options import TableFields
from podsim.units import parse_quantity
from podsim.workload.catalog import load_model, trained_length
from podsim.workload.model import Model

DEFAULT_TOKENS = 4 * 2**20
"""tokens of a step when no batch is given, as large language models of 2020-2024 were trained with"""

LARGEST_BATCH = 10_000_000
"""sequences of a step: a thousand times what has been trained with"""

_LENGTH = re.compile(r"\s*([\d_,]*\.?\d+)\s*(k|ki|m|mi)?\s*(tokens?)?\s*", re.IGNORECASE)
_SEQUENCES = re.compile(r"\s*(\d[\d_,]*)\s*(sequences|seqs?|samples)?\s*", re.IGNORECASE)


def refuse_tables(options: TableFields, model: str) -> None:
    """Raise PodsimError for options of embedding tables with a model that has none."""
    if options.tables is not None or options.placement or options.servers:
        raise PodsimError(
            f"{str(model)[-60:]} has no embedding tables with sparse gradients: --tables, --placement and --servers are "
            "for recommenders, as dlrm and dlrm-dcnv2"
        )


class Inputs(NamedTuple):
    """What a job consists of."""

    model: Model
    cluster: Cluster
    gpus: int
    notes: tuple[str, ...] = ()
    """What names and open settings stand for."""


def split_overrides(pairs: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """(overrides of the model, overrides of the cluster); the model's start with "model."."""
    if pairs is not None and not isinstance(pairs, Mapping):
        raise PodsimError(f'overrides={str(pairs)[:60]!r}: give a mapping, such as {{"gpu.memory": "64GB"}}')
    model, cluster = {}, {}
    for key, value in (pairs or {}).items():
        if key.startswith("model."):
            model[key.removeprefix("model.")] = value
        else:
            cluster[key] = value
    return model, cluster


def read_inputs(
    model: str | Path,
    on: str | Path,
    gpus: int | None,
    sequence: int | str | None,
    overrides: Mapping[str, str] | None,
    train: str = "full",
) -> Inputs:
    """The model, the part of the cluster that the job gets, its GPUs, and what was taken where the user left it open.

    Without a sequence a model has the length that it was trained with, not its context window.
    """
    if model == "" or on == "":
        missing = {} if model else {"model": "llama-3.1-8b"}
        missing |= {} if on else {"on": "h100", "gpus": str(gpus or 64)}
        raise PodsimError("give MODEL and --on CLUSTER, or a plan with --plan FILE").offer(**missing)
    for_model, for_cluster = split_overrides(overrides)
    if sequence is not None:
        for_model["sequence"] = str(read_sequence(sequence))
    network = load_model(model, for_model)
    notes: list[str] = []
    if "sequence" not in for_model:
        length, source = trained_length(network)
        notes.append(f"sequence {length:,} tokens, as trained ({source}); --sequence changes it")
        if length != network.sequence:
            network = load_model(model, for_model | {"sequence": str(length)})
    notes += network.assumptions
    if train != "full":
        from podsim.workload.finetuning import fine_tuned

        network = fine_tuned(network, train)
        share = network.trained_parameters / network.parameters
        notes.append(
            f"train {network.training}: {network.trained_parameters:,} of {network.parameters:,} parameters "
            f"({share:.2%}); a step computes {network.passes:.2f} x its forward pass, where training all takes 3 x"
        )
    cluster = load_cluster(on, for_cluster, gpus)
    return Inputs(network, cluster, cluster.gpus, (*cluster_notes(on, cluster), *notes))


def cluster_notes(on: str | Path, cluster: Cluster) -> tuple[str, ...]:
    """What a cluster's text stands for, where it is not the cluster's own name: "h100: 8 x dgx-h100 (64 GPUs)"."""
    text = str(on).strip()
    if ":" in text or text.lower().endswith(".toml") or cluster.name.lower().split(" (")[0] == text.lower():
        return ()
    servers = f"{cluster.nodes} x {cluster.system.name}"
    return (f"{text[-60:]}: {servers} ({cluster.gpus:,} {cluster.gpu.name} GPUs)",)


def read_sequence(text: int | str) -> int:
    """Tokens of a sequence: 8192, "8k" (8,192) or "128K". Raises PodsimError for anything else."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _LENGTH.fullmatch(text) if isinstance(text, str) else None
    size = 0.0
    if match:
        factor = {"": 1, "k": 2**10, "m": 2**20}[(match[2] or "").lower().removesuffix("i")]
        size = float(re.sub("[_,]", "", match[1])) * factor
    if not match or not size.is_integer():
        raise PodsimError(
            f"sequence={str(text)[:60]!r}: expected tokens of a sequence, such as 4096 or 8k"
        ).offer(sequence="8k")
    return int(size)


def batch_of(batch: int | str | None, sequence: int, gpus: int = 1) -> tuple[int, bool]:
    """(sequences of a step, whether that is the default of about four million tokens).

    A number counts sequences, and text with a prefix or "tokens" counts tokens: "4M", "0.5M", "512k tokens". Tokens
    become the nearest m x 2^k sequences (m from 4 to 7) times the odd part of the GPUs, so that replicas may divide
    them. The default is a power of two times that part: 2,240 on 4,480 GPUs.
    """
    if batch is None:
        sequences = max(1, DEFAULT_TOKENS // sequence)
        odd = gpus // (gpus & -gpus)
        if 1 < odd <= 2 * sequences:
            return odd << max(0, round(log2(sequences / odd))), True
        return 1 << (sequences.bit_length() - 1), True
    if isinstance(batch, str):
        batch = _read_batch(batch, sequence, gpus)
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= LARGEST_BATCH:
        raise PodsimError(f"batch={batch!r}: a step has 1 to {LARGEST_BATCH:,} sequences; 4M is 4 M tokens")
    return batch, False


def _read_batch(text: str, sequence: int, gpus: int) -> int:
    """Sequences of a step from text: a plain number of them, or tokens."""
    if match := _SEQUENCES.fullmatch(text):
        return int(re.sub("[_,]", "", match[1]))
    try:
        number = re.sub(r"(?i)\s*(tokens?|tok)\s*$", "", text.replace(",", ""))
        tokens = parse_quantity(re.sub(r"(?<=\d)m$", "M", number), what="batch")
    except UnitError:
        raise PodsimError(
            f"batch={text[:60]!r}: expected sequences, such as 1024, or tokens, such as 4M"
        ).offer(batch="4M") from None
    if tokens < sequence:
        raise PodsimError(
            f"batch={text[:60]!r}: {tokens:,.0f} tokens are less than one sequence of {sequence:,}; "
            "a number without a prefix counts sequences"
        ).offer(batch=max(1, round(tokens)))
    wanted, odd = tokens / sequence, gpus // (gpus & -gpus)
    odd = odd if odd <= wanted else 1
    doublings = max(0, int(log2(wanted / odd)) - 2)
    return (odd * max(1, round(wanted / odd / (1 << doublings)))) << doublings
