"""Compare podsim's parameter counts with those of transformers' own classes on the meta device.

    python scripts/compare_transformers.py [KIND ...] [--write]

KIND is causal (default), image, seq2seq, masked or vision; each model_type of it is built from its config class's
defaults. --write records the families that agree in tests/workload/agreeing_families.json, which the tests marked `hf`
compare again. Needs `pip install 'podsim[hf]'` and no network.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from podsim.errors import ModelError
from podsim.workload.huggingface import read_config

KEPT = Path(__file__).parents[1] / "tests" / "workload" / "agreeing_families.json"
TABLES = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "image": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "masked": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "vision": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
}  # fmt: skip


def classes(kind: str) -> dict[str, str]:
    """The class of each model_type of a kind."""
    table = getattr(import_module("transformers.models.auto.modeling_auto"), TABLES[kind])
    return {name: made if isinstance(made, str) else made[0] for name, made in table.items()}


def count_by_class(model_type: str, class_name: str) -> tuple[dict[str, Any], int]:
    """(config.json of the class's defaults, parameters of the class); any exception of the class passes through."""
    torch, transformers = import_module("torch"), import_module("transformers")
    config = transformers.AutoConfig.for_model(model_type)
    written = json.loads(config.to_json_string(use_diff=False))
    written["architectures"] = [class_name]
    with torch.device("meta"):
        module = getattr(transformers, class_name)(config)
    return written, sum(parameter.numel() for parameter in module.parameters())


def main(arguments: list[str]) -> None:
    """Print what differs, and how many agree."""
    kinds = [word for word in arguments if word in TABLES] or ["causal"]
    outcomes: Counter[str] = Counter()
    agreeing: dict[str, str] = {}
    for kind in kinds:
        for model_type, class_name in classes(kind).items():
            try:
                config, wanted = count_by_class(model_type, class_name)
            except Exception as error:  # a class that its own defaults do not build
                outcomes["not built by transformers"] += 1
                print(f"{model_type}: transformers: {type(error).__name__}")
                continue
            try:
                counted = read_config(config).parameters
            except ModelError as error:
                outcomes["refused"] += 1
                print(f"{model_type}: {str(error)[:150]}")
                continue
            outcomes["equal" if counted == wanted else "different"] += 1
            if counted == wanted:
                agreeing[model_type] = class_name
            else:
                print(f"{model_type}: {counted:,}, transformers {wanted:,} ({counted / wanted - 1:+.3%})")
    print(", ".join(f"{count} {what}" for what, count in outcomes.items()))
    if "--write" in arguments:
        KEPT.write_text(json.dumps(dict(sorted(agreeing.items())), indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
