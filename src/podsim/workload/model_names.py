"""Models as users write them: meta-llama/Llama-3.1-8B-Instruct, Llama 3.1 8B, llama3.1_8b are all llama-3.1-8b."""

from __future__ import annotations

import re
from collections.abc import Iterable

from podsim.errors import ModelError, unknown_name

_VARIANTS = re.compile(
    r"[-.](uncased|cased|hf|instruct|chat|base|it|pt|fp8|(nv|mx)?fp4|int[48]|bf16|v\d+(\.\d+)?|\d{4}|original|turbo|text|"
    r"model|gguf|awq|gptq|dynamic|block)$"
)
"""ends of repository names that do not change the architecture"""
_MAKERS = re.compile(r"^(meta|facebook|openai|google|nvidia|mistralai|hf|microsoft|ai2|ibm)-")
_REPOSITORY = re.compile(r"[\w.-]{1,80}/[\w.-]{1,120}")


def is_repository(text: str) -> bool:
    """Whether a text has the form of a Hugging Face repository: OWNER/NAME."""
    is_path = text.startswith((".", "~")) or text.lower().endswith((".json", ".toml", "/"))
    return _REPOSITORY.fullmatch(text) is not None and not is_path


def known_model(text: str, known: Iterable[str]) -> str:
    """The name among `known` that a text means, with or without its owner and its variant; "" if none."""
    names = {_squeeze(name): name for name in known}
    name = re.sub(r"[\s_]+", "-", text.strip().lower().rpartition("/")[2])
    seen = ""
    while name != seen:
        if match := names.get(_squeeze(name)):
            return match
        if match := names.get(_squeeze(_MAKERS.sub("", name))):
            return match
        seen, name = name, _VARIANTS.sub("", name)
    return ""


def unknown_model(text: str, known: Iterable[str]) -> ModelError:
    """The error for a text that is neither a file nor a known model, with what would work."""
    if is_repository(text):
        return ModelError(
            f"no file {text[:100]}, and the catalog has no such model. Download its config.json "
            f"(https://huggingface.co/{text}/raw/main/config.json) and give the file"
        )
    name = text.strip().lower().rpartition("/")[2]
    return ModelError(f"{unknown_name('model', name, known)} A config.json, or its folder, works too")


def _squeeze(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name)
