"""Models that read with an encoder and write with a decoder."""

from __future__ import annotations

import numpy as np
import pytest

import podsim
from podsim.hardware.catalog import load_gpu
from podsim.serving.encoder_decoder import (
    decoder_part,
    decoder_step,
    encoder_part,
    has_encoder,
    input_cache_bytes,
)
from podsim.serving.inference_passes import is_encoder
from podsim.workload.catalog import load_model


def test_both_parts_have_all_products_of_the_model() -> None:
    model = load_model("t5-3b")
    assert has_encoder(model)
    assert not has_encoder(load_model("bert-large"))
    reads, writes = encoder_part(model), decoder_part(model)
    assert is_encoder(reads)
    assert not is_encoder(writes)
    weights = [
        sum(block.count * op.weight for block in part.layers for op in block.ops if op.kind == "gemm")
        for part in (reads, writes, model)
    ]
    assert weights[0] + weights[1] == weights[2]


def test_keys_and_values_of_the_input_are_counted_by_hand() -> None:
    assert input_cache_bytes(load_model("t5-3b"), 512) == 512 * 24 * 2 * 32 * 128 * 2


def test_a_step_reads_the_input_again_and_grows_with_what_was_written() -> None:
    model, gpu, batch = load_model("t5-3b"), load_gpu("a100-sxm4-80gb"), np.array([8.0])
    short, long, later = (
        decoder_step(model, gpu, batch, lengths, precision="fp16", sparse=False).attention[0]
        for lengths in ((128.0, 16.0), (1024.0, 16.0), (128.0, 512.0))
    )
    assert short < later < long


def test_they_are_served_with_a_first_token_and_others() -> None:
    row = podsim.serve("t5-3b", on="a100", tokens=512, output=64, batch="8").rows[0]
    assert row.latency == pytest.approx(row.first_token + 63 * row.token)
    assert row.first_token > 4 * row.token
