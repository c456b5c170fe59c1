"""Whatever is typed: exit status 0, 1 or 2, a message with 2, and never a traceback."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import Result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

Run = Callable[..., Result]
words = st.one_of(
    st.text(max_size=12),
    st.integers(-(10**24), 10**24).map(str),
    st.integers(-2, 9).map(str),
    st.sampled_from(
        ["nan", "inf", "1e999", "", " ", "=", "a=b", "tp=3,x", "gpu.memory=1", "\x00", "\ud800", "--", "-h"]
    ),
    st.sampled_from(
        ["gpt2", "bert-large", "selene", "dgx-a100-80gb:1", "none", "full", "fp16", "time", "1f1b", "/", "."]
    ),
)
options = st.sampled_from([
    "--on", "--gpus", "--batch", "--tp", "--pp", "--dp", "--cp", "--ep", "--virtual-stages", "--micro-batch",
    "--schedule", "--sequence-parallel", "--zero", "--shard", "--recompute", "--recompute-layers", "--flash",
    "--no-flash", "--overlap-tp", "--precision", "--optimizer-precision", "--software", "--sequence", "--set",
    "--detail", "--json", "--csv", "--objective", "--top", "--limit",
])  # fmt: skip
slow = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def _answered(result: Result) -> None:
    assert result.exit_code in (0, 1, 2)
    if result.exit_code == 2:
        assert result.stderr or result.stdout.startswith("Usage")


verbs = st.sampled_from(["show", "models", "clusters", "predict", "plan", "replay", "schedule", "spiral"])


@slow
@given(verb=verbs, rest=st.lists(st.one_of(words, options), max_size=6))
def test_anything(podsim: Run, verb: str, rest: list[str]) -> None:
    _answered(podsim(verb, *rest))


integers = st.one_of(
    st.integers(-2, 16), st.sampled_from([64, 96, 10**6, 10**12, -(10**12), 2**31, 2**63, 10**30])
)


@slow
@given(
    numbers=st.dictionaries(
        st.sampled_from([
            "gpus", "batch", "tp", "pp", "dp", "cp", "ep", "virtual-stages", "micro-batch", "zero", "shard",
            "recompute-layers", "sequence",
        ]), integers, max_size=6,
    ),
    flags=st.sets(st.sampled_from(["--sequence-parallel", "--no-flash", "--overlap-tp", "--json"])),
    recompute=st.sampled_from(["none", "selective", "full"]),
    model=st.sampled_from(["gpt2", "bert-large", "mixtral-8x7b", "t5-3b", "deepseek-v3"]),
    on=st.sampled_from(["dgx-a100-80gb:1", "selene", "dgx-1-v100-16gb:2", "dgx-h100:3"]),
)  # fmt: skip
def test_any_numbers(
    podsim: Run, numbers: dict[str, int], flags: set[str], recompute: str, model: str, on: str
) -> None:
    given_ = [word for key, value in numbers.items() for word in (f"--{key}", str(value))]
    _answered(podsim("predict", model, "--on", on, "--recompute", recompute, *given_, *sorted(flags)))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    limits=st.dictionaries(
        st.sampled_from([
            "tp", "pp", "cp", "ep", "micro_batch", "virtual_stages", "zero", "shard", "recompute", "recompute_layers",
            "schedule", "flash", "overlap_tp", "overlap_grad", "sequence_parallel",
        ]), st.lists(st.one_of(st.integers(-1, 9).map(str), words), min_size=1, max_size=2), max_size=4,
    ),
    batch=integers,
    model=st.sampled_from(["gpt2", "mixtral-8x7b", "t5-3b"]),
)  # fmt: skip
@example(limits={}, batch=1_000_000, model="t5-3b")  # uneven pipelines of a million micro-batches
def test_any_limits(podsim: Run, limits: dict[str, list[str]], batch: int, model: str) -> None:
    pairs = [word for key, values in limits.items() for word in ("--limit", f"{key}={','.join(values)}")]
    _answered(podsim("plan", model, "--on", "dgx-a100-80gb:2", "--batch", batch, *pairs, "--limit", "tp=2"))
