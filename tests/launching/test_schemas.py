"""What is written, held against the keys that the tools' own releases know.

`scripts/tools.py` parses the files with the tools' own code and records their keys in tool_keys.json. Kubeflow's classes
are light and part of the tests' requirements.
"""

from __future__ import annotations

import json
import re
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_launches import written

from podsim.launching import bridge
from podsim.launching.key_table import flat_keys
from podsim.launching.python_recipe import read_paths
from podsim.safe_yaml import read_documents

KEYS: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "tool_keys.json").read_text("utf-8")
)
COUNT = 10


def _paths(tool: str, text: str) -> Iterator[str]:
    """The paths of the keys of a file."""
    if tool == "nemo":
        yield from (path for path in read_paths(text) if "." in path)
    elif tool == "torchtitan":
        yield from flat_keys(tomllib.loads(text))
    elif tool == "deepspeed":
        yield from flat_keys(json.loads(text))
    else:
        yield from flat_keys(read_documents(text)[0])


@pytest.mark.parametrize("tool", KEYS)
def test_every_key_is_one_that_the_tool_knows(tool: str) -> None:
    held = 0
    for _, text in written(tool, COUNT):
        for path in _paths(tool, text):
            table, _, key = path.rpartition(".")
            if table in KEYS[tool]:
                held += 1
                assert key in KEYS[tool][table], path
    assert held >= 2 * COUNT


def test_options_of_megatron_are_fields_of_its_classes() -> None:
    """Megatron-LM makes its options of the dataclasses that Megatron-Bridge takes: one row is one field."""
    options = {option for _, option, _ in bridge.ROWS} | {*bridge.ELSEWHERE}
    for _, text in written("megatron", COUNT):
        assert set(re.findall(r"--([a-z0-9-]+)", text)) <= options
    for path, _, _ in bridge.ROWS:
        table, _, key = path.partition(".")
        assert key in KEYS["nemo"].get(table, [key]), path


def test_the_manifest_is_what_kubeflow_takes() -> None:
    """Read as the classes of the API and written again, it is the same: no field is unknown or of another type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training = pytest.importorskip("kubeflow.training", exc_type=ImportError)
        from kubernetes.client import ApiClient

    text = next(text for _, text in written("kubernetes", 1))
    manifest = read_documents(text)[0]

    class Answer:
        data = json.dumps(manifest)

    client: Any = ApiClient()
    for name in dir(training.models):  # as the package's own client makes them known
        setattr(__import__("kubernetes").client.models, name, getattr(training.models, name))
    made = client.deserialize(Answer(), "KubeflowOrgV1PyTorchJob")
    again = client.sanitize_for_serialization(made)
    pods = [one["template"]["spec"] for one in manifest["spec"]["pytorchReplicaSpecs"].values()]
    assert again == manifest
    assert all(
        client.sanitize_for_serialization(client.deserialize(_answer(pod), "V1PodSpec")) == pod
        for pod in pods
    )


def _answer(value: object) -> Any:
    return type("Answer", (), {"data": json.dumps(value)})()
