"""Which options of `podsim serve` have a meaning for a network, and which for a language model."""

from __future__ import annotations

from podsim.errors import PodsimError
from podsim.options.best_options import BestOptions
from podsim.options.language_options import LanguageOptions
from podsim.options.load_options import LoadOptions
from podsim.options.question import options_of
from podsim.options.scenario_options import ScenarioOptions
from podsim.options.serving_options import ServeOptions
from podsim.questions.serve.serve_captured import is_graph
from podsim.serving.language_layers import is_language_model
from podsim.serving.language_setup import model_keys
from podsim.workload.catalog import load_model
from podsim.workload.convolution import CONVOLUTIONAL

_SHARED = ("engine", "rate", "input_tokens", "output_tokens")
"""options of language models that networks read, too"""


def is_network(options: ServeOptions) -> bool:
    """Whether the model writes no text, token after token: an ensemble, a captured network, images, an encoder."""
    model = options.model
    if model.endswith(".toml") or is_graph(model) or model.lower() in CONVOLUTIONAL:
        return True
    return not is_language_model(load_model(model, model_keys(options.overrides)))


def check_network(options: ServeOptions) -> None:
    """Raise PodsimError for options of a network that only language models read."""
    wrong = [
        name for name in _given(options, LanguageOptions, LoadOptions, BestOptions) if name not in _SHARED
    ]
    if wrong:
        raise PodsimError(
            f"{_flags(wrong)}: of language models; {options.model[-60:]} takes --scenario, --rate, --chunk or --video"
        )


def check_language(options: ServeOptions) -> None:
    """Raise PodsimError for options of a language model that only networks read."""
    wrong = [name for name in _given(options, ScenarioOptions) if name != "percentile"]
    if wrong:
        raise PodsimError(
            f"{_flags(wrong)}: of networks; {options.model[-60:]} is a language model: --rate, --ttft, --tpot"
        )


def _given(options: ServeOptions, *groups: type) -> list[str]:
    """The options of some groups that differ from their defaults."""
    known = options_of(ServeOptions)
    names = dict.fromkeys(name for group in groups for name in options_of(group))
    return [name for name in names if getattr(options, name) != known[name].default]


def _flags(names: list[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)
