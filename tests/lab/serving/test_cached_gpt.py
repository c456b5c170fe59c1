"""Chunks and cached tokens give what the network gives for all tokens at once."""

from __future__ import annotations

import pytest

from podsim.lab.serving.cached_gpt import CachedGpt
from podsim.workload.specification import Transformer, resolve

torch = pytest.importorskip("torch")


def test_a_cached_answer_is_that_of_the_whole_network() -> None:
    spec = resolve(
        Transformer(
            name="t", layers=2, hidden=32, heads=4, vocab=50, sequence=40, positions=40, ffn=64, tied=False
        )
    )
    cached = CachedGpt(spec, 3, 40)
    prompts = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8]]
    answers = [[cached.chunk(2, prompts[0][:3], 0)], [cached.chunk(0, prompts[1], 0)]]
    answers[0] = [cached.chunk(2, prompts[0][3:], 3)]
    for step in range(5):
        tokens = [answer[-1] for answer in answers]
        made = cached.decode([2, 0], tokens, [len(prompt) + step for prompt in prompts])
        answers = [[*answer, token] for answer, token in zip(answers, made, strict=True)]
    for prompt, answer in zip(prompts, answers, strict=True):
        known = list(prompt)
        for token in answer:
            with torch.inference_mode():
                assert int(cached.network(torch.tensor([known]))[0, -1].argmax()) == token
            known.append(token)
