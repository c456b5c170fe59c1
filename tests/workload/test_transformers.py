"""Parameters of every family that agrees with transformers' own class on the meta device; needs podsim[hf]."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts.compare_transformers import count_by_class

from podsim.workload.huggingface import read_config

FAMILIES: dict[str, str] = json.loads((Path(__file__).parent / "agreeing_families.json").read_text("utf-8"))
pytestmark = [
    pytest.mark.hf,
    pytest.mark.skipif(
        find_spec("transformers") is None, reason="needs transformers: pip install podsim[hf]"
    ),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("model_type", FAMILIES)
def test_parameters_are_those_of_the_class(model_type: str) -> None:
    config, parameters = count_by_class(model_type, FAMILIES[model_type])
    assert read_config(config).parameters == parameters


def test_a_family_that_no_table_has_is_built_by_its_class() -> None:
    config, parameters = count_by_class("rwkv", "RwkvForCausalLM")
    model = read_config(config)
    assert model.parameters == parameters
    assert "RwkvForCausalLM" in model.source
