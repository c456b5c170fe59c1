"""Language models in static batches: plans, memory, parallelism, drafts, all configs, published rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import podsim
from podsim.accuracy.price_engines import engine_sum
from podsim.errors import ModelError, NoFitError, PlanError, PodsimError, TableError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import load_cluster
from podsim.kernels.engine_run import EngineRun
from podsim.kernels.engine_sums import sums_seconds
from podsim.options.serving_options import ServeOptions
from podsim.serving.language_engines import load_language_engine
from podsim.serving.language_setup import read_language_setup
from podsim.serving.serving_plan import ServingPlan
from podsim.serving.serving_rows import packaged_serving, read_serving
from podsim.serving.static_batches import StaticRequest, static_row
from podsim.serving.step_cost import passes_cost
from podsim.serving.step_laws import make_passes
from podsim.workload.catalog import load_model

REQUEST = StaticRequest(tokens=512, output=128)
CONFIGS = json.loads((Path(__file__).parents[1] / "workload" / "configs.json").read_text("utf-8"))


def _served(model: str, on: str, batch: int = 8, **plan: object) -> float:
    """s of a batch."""
    made = make_passes(load_model(model), load_cluster(on), ServingPlan(engine="vllm", **plan))  # type: ignore[arg-type]
    return static_row(made, passes_cost(made), REQUEST, batch).latency


def test_the_fewest_gpus_with_room_are_taken_and_the_rest_are_replicas() -> None:
    served = podsim.serve("llama-2-70b", on="dgx-a100-80gb", batch="1,8")
    assert (served.plan["tensor"], served.instances) == (2, 4)
    assert served.weights == pytest.approx(68.98e9, rel=0.01)
    wide = podsim.serve("llama-2-70b", on="dgx-a100-80gb", batch="600")
    assert wide.plan["tensor"] == 4
    assert wide.rows[0].fits
    two = podsim.serve("llama-3.1-405b", on="dgx-a100-80gb:2", batch="1")
    assert (two.plan["tensor"], two.plan["pipeline"]) == (8, 2)


def test_more_gpus_shorten_a_batch_by_less_than_their_number() -> None:
    alone = _served("llama-2-13b", "dgx-h100")
    for plan in ({"tensor": 8}, {"tensor": 2, "context": 4}):
        many = _served("llama-2-13b", "dgx-h100", **plan)
        assert alone / 8 < many < alone / 2
    stages = _served("llama-2-13b", "dgx-h100", pipeline=8, batch=64)
    assert stages < _served("llama-2-13b", "dgx-h100", batch=64)


def test_narrow_weights_caches_drafts_and_prefixes_help_where_they_should() -> None:
    usual = _served("llama-2-13b", "dgx-h100", batch=64)
    assert _served("llama-2-13b", "dgx-h100", batch=64, precision="fp8") < usual
    assert _served("llama-2-13b", "dgx-h100", batch=64, cache="fp8") < usual
    assert _served("llama-2-13b", "dgx-h100", batch=64, prefix_share=0.9) < usual
    lone = _served("llama-2-13b", "dgx-h100", batch=1)
    draft = {"draft_tokens": 4, "batch": 1}
    sure, never = (_served("llama-2-13b", "dgx-h100", acceptance=share, **draft) for share in (0.9, 0.0))  # type: ignore[arg-type]
    assert sure < lone < never
    model = _served("llama-2-13b", "dgx-h100", acceptance=0.9, draft="gpt2", **draft)  # type: ignore[arg-type]
    looked_up = _served("llama-2-13b", "dgx-h100", acceptance=0.9, draft="ngram", **draft)  # type: ignore[arg-type]
    assert looked_up < sure
    assert looked_up < model < lone


def test_accepted_tokens_are_those_of_a_geometric_series() -> None:
    plan = ServingPlan(engine="vllm", draft_tokens=3, acceptance=0.5)
    assert plan.accepted_tokens == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    assert replace(plan, acceptance=1.0).accepted_tokens == 4
    assert replace(plan, draft_tokens=0).accepted_tokens == 1


def test_experts_of_a_wide_group_read_fewer_weights() -> None:
    even = {"tensor": 8, "precision": "fp8_block", "batch": 8}
    divided = _served("deepseek-v2", "dgx-h100", **even)  # type: ignore[arg-type]
    dealt = _served("deepseek-v2", "dgx-h100", expert=8, **even)  # type: ignore[arg-type]
    assert 0.5 < dealt / divided < 2


def test_an_engines_all_reduce_beats_none_and_approaches_nvlink() -> None:
    gpu, run = load_gpu("h100"), EngineRun(engine="vllm", kernel="vLLM_custom_graph")
    sizes = np.array([256.0, 2.0**20, 2.0**30])
    seconds = sums_seconds(gpu, run, engine_sum(np.full(3, 8.0), sizes))
    assert 2e-6 < seconds[0] < 2e-5
    assert 0.5 < 1.75 * sizes[2] / gpu.nvlink / seconds[2] < 1


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_every_config_is_served(name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name]["config"]))
    served = podsim.serve(str(path), on="dgx-h100:4", batch="1,32")
    first, many = served.rows
    assert 0 < first.latency <= many.latency
    assert many.throughput > first.throughput


def test_published_batches_are_all_predicted_and_near() -> None:
    """Rows of TensorRT-LLM; no constant was fitted to them."""
    rates, firsts = packaged_serving()
    assert not rates.not_expressed
    assert not firsts.not_expressed
    for comparison, limit in ((rates, 0.10), (firsts, 0.12)):
        errors = [abs(row.error) for row in comparison.rows]
        assert sum(errors) / len(errors) < limit


def test_a_users_rows_are_validated(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "model,gpu,n_gpus,batch,input_tokens,output_tokens,tokens_per_s_per_gpu\n"
        "llama-2-7b,h100,1,16,512,128,1500\nllama-2-70b,a100-40gb,1,8,512,128,30\n"
    )
    (compared,) = podsim.validate(rows=path).comparisons
    assert 0.5 < compared.rows[0].predicted / compared.rows[0].measured < 2
    assert "would hold it" in dict(compared.not_expressed)["mine-0002"]
    path.write_text("model,gpu,input_tokens,tokens_per_s_per_gpu\nllama-2-7b,h100,512,fast\n")
    with pytest.raises(TableError, match="no positive number"):
        podsim.validate(rows=path)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"on": "h100", "precision": "fp9"}, PlanError, "fp8_block"),
        ({"on": "a100", "precision": "fp8"}, PodsimError, "no fp8"),
        ({"on": "h100", "kv": "int4"}, PlanError, "are kept in"),
        ({"on": "dgx-h100", "tp": 3}, PlanError, "32 heads cannot be divided"),
        ({"on": "dgx-h100", "tp": 8, "ep": 2}, PlanError, "has no experts"),
        ({"on": "dgx-h100", "tp": 2, "attention_dp": 4}, PlanError, "must divide tp"),
        ({"on": "h100", "tp": 2}, PlanError, "more than the 1"),
        ({"on": "h100", "tp": 0}, PlanError, "tp=0: 1 or more"),
        ({"on": "h100", "pp": 99}, PlanError, "32 layers"),
        ({"on": "h100", "prefix": 2.0}, PlanError, "prefix=2"),
        ({"on": "h100", "engine": "vlm"}, PodsimError, "did you mean vllm"),
        ({"on": "h100", "speculate": 2, "draft": "bert-base"}, ModelError, "produces no tokens"),
        ({"on": "h100", "tokens": 9000, "chunked": False}, PlanError, "at most 8,192"),
        ({"on": "h100", "memory_share": 0.0}, PlanError, "above 0"),
        ({"on": "a100-40gb/1g.5gb"}, NoFitError, "would hold it"),
        ({"on": "a100-40gb/2x3g.20gb", "tp": 2}, PlanError, "stays in one"),
    ],
)
def test_wrong_plans_say_what_would_work(
    options: dict[str, object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        read_language_setup(ServeOptions(model="llama-2-7b", **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stated", "gpu", "precision"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "h100", "fp8_block"),
        ({"quant_method": "fp8"}, "a100", "int8_wo"),
        ({"quant_method": "awq", "bits": 4}, "a100", "int4_wo"),
        ({"quant_method": "gptq", "bits": 8}, "h100", "int8_wo"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "b200", "nvfp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"type": "int", "num_bits": 8}, "input_activations": None}
                },
            },
            "a100",
            "int8_wo",
        ),
        ({"quant_method": "unheard"}, "h100", "fp16"),
    ],
)
def test_a_quantised_checkpoint_is_served_in_its_format(
    stated: dict[str, object], gpu: str, precision: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["llama-7b"]["config"] | {"quantization_config": stated}))
    assert podsim.serve(str(path), on=gpu, batch="1").precision == precision


def test_slices_serve_each_its_own_copy() -> None:
    one = podsim.serve("gpt2", on="a100-40gb/1g.5gb", batch="8")
    seven = podsim.serve("gpt2", on="a100-40gb/7x1g.5gb", batch="8")
    assert seven.instances == 7
    assert 6.5 * one.total < seven.total < 7 * one.total


def test_a_file_without_rows_says_so(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be read"):
        read_serving(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("TensorRT-LLM v0.5.0", "tensorrt-llm-2023"),
        ("tensorrt_llm==1.2.1", "tensorrt-llm"),
        ("vLLM 0.33.0", "vllm"),
        ("sgl", "sglang"),
    ],
)
def test_engines_are_known_by_name_and_release(name: str, entry: str) -> None:
    assert load_language_engine(name, load_gpu("h100")).name == entry


def test_heads_without_a_common_walk_over_the_keys_are_slower() -> None:
    """Releases of 2023 had no kernel for the heads of a group with keys in 8 bits."""
    today, then = (
        podsim.serve(
            "llama-2-70b", on="dgx-h100", engine=engine, tp=4, precision="fp8", tokens=2048, batch="64"
        ).rows[0]
        for engine in ("tensorrt-llm", "tensorrt-llm-2023")
    )
    assert then.parts["attention"] > 3 * today.parts["attention"]
    assert then.parts["products"] == pytest.approx(today.parts["products"])


def test_engines_have_sheets() -> None:
    assert {row.label for row in podsim.show("engines").sections[0].rows} >= {
        "vllm",
        "sglang",
        "tensorrt-llm",
    }
    rows = {row.label: row for row in podsim.show("vllm").sections[0].rows}
    assert rows["block_tokens"].value == 16
    assert "256 on a100-sxm4-80gb" in rows["max_batch"].how
    assert "assumed" in rows["evidence"].how


def test_triton_gives_each_replica_its_gpus(tmp_path: Path) -> None:
    podsim.serve("llama-2-70b", on="dgx-a100-80gb", batch="8", triton=tmp_path)
    text = (tmp_path / "llama_2_70b" / "config.pbtxt").read_text("utf-8")
    assert "count: 4 kind: KIND_CPU" in text
    assert 'string_value: "0,1;2,3;4,5;6,7"' in text
