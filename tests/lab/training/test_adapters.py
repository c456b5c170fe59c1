"""A small GPT fine-tuned for real: the loss falls, frozen weights keep every bit, and memory is what is counted."""

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.workload.catalog import load_model
from podsim.workload.finetuning import fine_tuned


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("train", ["lora:4", "frozen:1"])
def test_fine_tuning_for_real(train: str) -> None:
    run = podsim.train("gpt-tiny", ranks=1, batch=8, steps=12, rate=1e-2, train=train)
    assert run is not None
    predicted = fine_tuned(load_model("gpt-tiny"), train)
    assert run.rows[-1].loss < run.rows[0].loss - 0.05
    assert run.held["frozen_unchanged"] == 1.0
    if train.startswith("lora"):
        assert run.held["trained"] == predicted.trained_parameters
        assert run.held["trained"] + run.held["frozen"] == predicted.parameters
    assert run.held["gradients"] == 4 * run.held["trained"]
    assert run.held["optimizer"] == pytest.approx(8 * run.held["trained"], rel=0.01)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train": "qlora:4"}, "predicted only"),
        ({"train": "dpo"}, "predicted only"),
        ({"train": "lora:4", "tp": 2}, "whole networks"),
        ({"train": "frozen:99"}, "freeze fewer"),
    ],
)
def test_what_cannot_be_fine_tuned_for_real(options: dict[str, object], words: str) -> None:
    with pytest.raises(PodsimError, match=words):
        podsim.train("gpt-tiny", batch=8, steps=1, **options)
