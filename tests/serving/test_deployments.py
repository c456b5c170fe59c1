"""Files that start a server: what is written, what each engine refuses, and what is read back."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from podsim import serve
from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.launching.shell import commands
from podsim.serving.deployments.deployment import Deployment
from podsim.serving.deployments.deployments import read_serving_plan, read_targets, write_deployment
from podsim.serving.deployments.engine_flags import read_server, server_words
from podsim.serving.serving_plan import ServingPlan
from podsim.workload.catalog import load_model

DENSE, EXPERTS = "llama-2-70b", "mixtral-8x7b"
PLANS = (
    (DENSE, ServingPlan(engine="vllm", tensor=4, pipeline=2, max_batch=96, max_batched_tokens=2048)),
    (DENSE, ServingPlan(engine="vllm", tensor=2, replicas=4, precision="fp8", cache="fp8", max_batch=64)),
    (EXPERTS, ServingPlan(engine="vllm", tensor=8, expert=8, data_attention=8)),
    (DENSE, ServingPlan(engine="vllm", tensor=8, draft_tokens=3, draft="ngram", chunked_prefill=False)),
    (DENSE, ServingPlan(engine="sglang", tensor=4, replicas=2, max_batch=48, memory_share=0.8)),
    (EXPERTS, ServingPlan(engine="sglang", tensor=8, expert=8, data_attention=8, precision="fp8")),
    (DENSE, ServingPlan(engine="sglang", tensor=8, draft_tokens=2)),
    (DENSE, ServingPlan(engine="tensorrt-llm", tensor=4, pipeline=2, max_batch=128, max_batched_tokens=4096)),
    (EXPERTS, ServingPlan(engine="tensorrt-llm", tensor=8, expert=8, data_attention=8, cache="fp8")),
)  # fmt: skip
_SAME = {"tensor": "tp", "pipeline": "pp", "expert": "ep", "data_attention": "attention_dp", "cache": "kv",
         "draft_tokens": "speculate", "chunked_prefill": "chunked"}  # fmt: skip
_TARGETS = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}


def _deployment(model: str, plan: ServingPlan, on: str = "dgx-h100:1", **more: Any) -> Deployment:
    names = {"model": model, "on": on}
    return Deployment(
        model=load_model(model), cluster=load_cluster(on), plan=plan, longest=640, names=names, **more
    )


@pytest.mark.parametrize(("model", "plan"), PLANS)
def test_what_is_written_is_read_back(model: str, plan: ServingPlan, tmp_path: Path) -> None:
    paths, _ = write_deployment(_deployment(model, plan), (_TARGETS[plan.engine], "kubernetes"), tmp_path)
    for name in ("serve.sh", "serve.yaml"):
        assert str(tmp_path / name) in paths
        said = read_serving_plan(tmp_path / name)
        assert (said["model"], said["on"]) == (model, "dgx-h100:1")
        for field, value in vars(plan).items():
            wanted = getattr(ServingPlan(engine=""), field)
            assert value in (wanted, said.get(_SAME.get(field, field)))


@pytest.mark.parametrize(("model", "plan"), PLANS)
def test_the_words_alone_say_degrees_and_limits(model: str, plan: ServingPlan) -> None:
    read = read_server(server_words(_deployment(model, plan), plan))
    assert read is not None
    for name in ("engine", "tensor", "pipeline", "max_batch", "max_batched_tokens", "draft_tokens"):
        assert getattr(plan, name) in (0, read.get(name, 1))
    if plan.engine != "tensorrt-llm":  # its YAML says these
        assert read.get("data_attention", 1) == plan.data_attention
        assert (read["precision"], read.get("cache", "fp16")) == (plan.precision, plan.cache)


@pytest.mark.parametrize(("model", "plan"), PLANS)
def test_every_option_is_one_of_the_release(model: str, plan: ServingPlan, tmp_path: Path) -> None:
    """server_options.json says where the names come from; SGLang's own parser gave all of its."""
    known = json.loads((Path(__file__).parent / "server_options.json").read_text())[plan.engine]["options"]
    split = plan.pipeline == 1 and plan.data_attention == 1
    write_deployment(
        _deployment(model, plan, prefill=plan if split else None), (_TARGETS[plan.engine],), tmp_path
    )
    words = [word for command in commands((tmp_path / "serve.sh").read_text()) for word in command]
    options = {word[2:] for word in words if word.startswith("--")}
    assert options
    assert options <= set(known)


def test_a_script_starts_each_replica_on_its_gpus(tmp_path: Path) -> None:
    write_deployment(_deployment(*PLANS[1]), ("vllm",), tmp_path)
    text = (tmp_path / "serve.sh").read_text()
    gpus = [
        word.partition("=")[2] for word in shlex.split(text, comments=True) if word.startswith("CUDA_VISIBLE")
    ]
    assert gpus == ["0,1", "2,3", "4,5", "6,7"]
    assert [words[words.index("--port") + 1] for words in commands(text) if "--port" in words] == [
        "8000", "8001", "8002", "8003",
    ]  # fmt: skip
    assert "0.33.0" in text


def test_split_pools_know_their_roles(tmp_path: Path) -> None:
    plan = ServingPlan(engine="sglang", tensor=4, max_batch=64, max_batched_tokens=8192)
    deployment = _deployment(DENSE, plan, prefill=replace(plan, tensor=2, replicas=2))
    write_deployment(deployment, ("sglang",), tmp_path)
    text = (tmp_path / "serve.sh").read_text()
    assert text.count("--disaggregation-mode prefill") == 2
    assert text.count("--disaggregation-mode decode") == 1
    said = read_serving_plan(tmp_path / "serve.sh")
    assert (said["tp"], said["disaggregate"], said["prefill_tp"]) == (4, "2:1", 2)


def test_a_replica_on_two_nodes_is_a_group(tmp_path: Path) -> None:
    plan = ServingPlan(engine="sglang", tensor=8, pipeline=2)
    write_deployment(_deployment(DENSE, plan, on="dgx-h100:2"), ("sglang", "kubernetes"), tmp_path)
    group = next(iter(yaml.safe_load_all((tmp_path / "serve.yaml").read_text())))
    assert group["kind"] == "LeaderWorkerSet"
    assert group["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert "$NODE_RANK" in (tmp_path / "serve.sh").read_text()


def test_triton_has_a_repository(tmp_path: Path) -> None:
    paths, _ = write_deployment(_deployment(*PLANS[0]), ("triton",), tmp_path)
    arguments = json.loads(Path(paths[1]).read_text())
    assert (arguments["tensor_parallel_size"], arguments["max_num_seqs"]) == (4, 96)
    assert arguments["enable_chunked_prefill"] is True
    write_deployment(_deployment(*PLANS[7]), ("triton",), tmp_path)
    assert 'backend: "tensorrtllm"' in (tmp_path / "llama_2_70b" / "config.pbtxt").read_text()


def test_a_changed_option_beats_the_comment(tmp_path: Path) -> None:
    write_deployment(_deployment(*PLANS[0]), ("vllm",), tmp_path)
    path = tmp_path / "serve.sh"
    path.write_text(path.read_text().replace("--max-num-seqs 96", "--max-num-seqs 32"))
    assert read_serving_plan(path)["max_batch"] == 32


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vllm serve meta-llama/Llama-3.1-8B -tp 2 -dp 4 --max-num-seqs=64 -q fp8",
         {"model": "meta-llama/Llama-3.1-8B", "tp": 2, "replicas": 4, "max_batch": 64, "precision": "fp8"}),
        ("python -m sglang.launch_server --model-path m/x --tp-size 8 --dp-size 8 --enable-dp-attention --ep-size 8",
         {"model": "m/x", "engine": "sglang", "tp": 8, "attention_dp": 8, "ep": 8}),
        ("trtllm-serve m/x --tp_size 4 --max_num_tokens 2048", {"tp": 4, "max_batched_tokens": 2048}),
    ],
)  # fmt: skip
def test_other_peoples_commands_are_read(text: str, said: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"#!/bin/bash\nexport A=1\n{text}\n")
    assert {name: read_serving_plan(path)[name] for name in said} == said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo hello", "starts no server"),
        ("vllm serve x --tensor-parallel-size many", "must be a whole number"),
        ("vllm serve x --quantization gguf", "podsim serves"),
        ("vllm serve x --gpu-memory-utilization 3", "at most 1"),
        ('vllm serve x\n# podsim: {"plan": {"tensor": "8"}}', "none that podsim wrote"),
        ("apiVersion: [", "not YAML"),
    ],
)
def test_a_file_that_starts_nothing_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(text)
    with pytest.raises(PodsimError, match=message):
        read_serving_plan(path)


@pytest.mark.parametrize(
    ("target", "plan", "message"),
    [
        ("triton", ServingPlan(engine="sglang", tensor=8), "no backend for SGLang"),
        ("vllm", ServingPlan(engine="sglang", tensor=8), "has --engine sglang"),
        ("sglang", ServingPlan(engine="sglang", tensor=8, precision="int8_wo"), "precision=int8_wo"),
        ("trtllm", ServingPlan(engine="tensorrt-llm", tensor=8, data_attention=2), "1 or all 8"),
    ],
)
def test_what_an_engine_cannot_run_is_refused(
    target: str, plan: ServingPlan, message: str, tmp_path: Path
) -> None:
    with pytest.raises(PodsimError, match=message):
        write_deployment(_deployment(DENSE, plan), (target,), tmp_path)
    assert not any(tmp_path.iterdir())


def test_unknown_targets_are_named() -> None:
    assert read_targets("k8s, vllm") == ("kubernetes", "vllm")
    with pytest.raises(PodsimError, match="did you mean vllm"):
        read_targets("vlm")


def test_an_answer_is_written_and_asked_again(tmp_path: Path) -> None:
    asked = {"on": "h100", "rate": "5/s", "requests": 300, "ttft": "1s"}
    first = serve("llama-3.1-8b", launch="vllm", save=tmp_path, **asked)
    assert any("serve.sh" in note for note in first.notes)
    again = serve(plan=str(tmp_path / "serve.sh"), **asked)
    assert {way.plan["engine"] for way in again.ways} == {"vllm"}
